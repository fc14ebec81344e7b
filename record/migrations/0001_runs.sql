-- Times are nanoseconds since 1970, UTC. Columns named *_json hold what the Go
-- types of package record marshal; the rest can be queried as it stands:
--
--   SELECT c.label, s.metric, avg(s.value)
--   FROM samples s JOIN trials t ON t.id = s.trial_id
--   JOIN conditions c ON c.run_id = t.run_id AND c.id = t.condition_id
--   WHERE t.run_id = 'weigh-...' AND t.block > 0 GROUP BY 1, 2;

CREATE TABLE runs (
  id        TEXT    PRIMARY KEY,
  study     TEXT    NOT NULL,
  command_json TEXT NOT NULL,
  version   TEXT    NOT NULL,
  seed      INTEGER NOT NULL,
  started   INTEGER NOT NULL,
  finished  INTEGER,
  status    TEXT    NOT NULL,
  reason    TEXT    NOT NULL,
  plan_json TEXT    NOT NULL,
  host_json TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_by_start ON runs (started);

CREATE TABLE conditions (
  run_id             TEXT    NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  id                 TEXT    NOT NULL,
  position           INTEGER NOT NULL,
  label              TEXT    NOT NULL,
  workload           TEXT    NOT NULL,
  params_json        TEXT    NOT NULL,
  platform           TEXT    NOT NULL,
  platform_version   TEXT    NOT NULL,
  setting_json       TEXT    NOT NULL,
  baseline           INTEGER NOT NULL,
  metrics_json       TEXT    NOT NULL,
  image              TEXT    NOT NULL,
  image_ref          TEXT    NOT NULL,
  packages_json      TEXT    NOT NULL,
  in_force_json      TEXT,
  not_representative TEXT    NOT NULL,
  PRIMARY KEY (run_id, id)
) STRICT, WITHOUT ROWID;

-- ended is 0 from the start of a trial until its end is recorded: what a crash
-- leaves at 0 was cut off, and its samples are kept all the same.
CREATE TABLE trials (
  id           INTEGER PRIMARY KEY,
  run_id       TEXT    NOT NULL,
  condition_id TEXT    NOT NULL,
  workload     TEXT    NOT NULL,
  block        INTEGER NOT NULL,
  attempt      INTEGER NOT NULL,
  position     INTEGER NOT NULL,
  replicate    INTEGER NOT NULL,
  started      INTEGER NOT NULL,
  elapsed      INTEGER NOT NULL,
  ended        INTEGER NOT NULL,
  taint_json   TEXT    NOT NULL,
  error        TEXT    NOT NULL,
  FOREIGN KEY (run_id, condition_id) REFERENCES conditions (run_id, id) ON DELETE CASCADE
) STRICT;

CREATE INDEX trials_by_run ON trials (run_id, condition_id);

CREATE TABLE samples (
  trial_id INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
  seq      INTEGER NOT NULL,
  metric   TEXT    NOT NULL,
  value    REAL    NOT NULL,
  PRIMARY KEY (trial_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE histograms (
  trial_id INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
  name     TEXT    NOT NULL,
  data     TEXT    NOT NULL,
  PRIMARY KEY (trial_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE covariates (
  trial_id INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
  name     TEXT    NOT NULL,
  value    REAL    NOT NULL,
  PRIMARY KEY (trial_id, name)
) STRICT, WITHOUT ROWID;
