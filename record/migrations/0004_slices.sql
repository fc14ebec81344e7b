-- Slices of a trial: stretches of load on one instance, or one execution each. Within a
-- round, which is the trial's block, those with the same strip and part were measured
-- next to each other. started and the columns window, cpu and load are in nanoseconds;
-- amount was done within window, and worked was paid for by cpu and load. NULL is
-- unknown. Of the throughput in one run:
--
--   SELECT t.block, s.strip, c.label, t.replicate, s.amount / (s.window / 1e9) AS per_second
--   FROM slices s JOIN trials t ON t.id = s.trial_id
--   JOIN conditions c ON c.run_id = t.run_id AND c.id = t.condition_id
--   WHERE t.run_id = 'weigh-...' AND s.part = 'get' AND s.control = '' AND s.taint_json = '[]'
--   ORDER BY t.block, s.strip, s.position;

CREATE TABLE slices (
  trial_id   INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
  seq        INTEGER NOT NULL,
  strip      INTEGER NOT NULL,
  position   INTEGER NOT NULL,
  previous   TEXT    NOT NULL,
  part       TEXT    NOT NULL,
  control    TEXT    NOT NULL,
  started    INTEGER NOT NULL,
  window     INTEGER NOT NULL,
  amount     REAL    NOT NULL,
  cpu        INTEGER,
  worked     REAL    NOT NULL,
  load       INTEGER,
  steal      REAL,
  "foreign"  REAL,
  taint_json TEXT    NOT NULL,
  histogram  TEXT    NOT NULL,
  PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;
