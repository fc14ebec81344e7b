-- The levels of a study's own factors: "rate": "4".
ALTER TABLE conditions ADD COLUMN factors_json TEXT NOT NULL DEFAULT '{}';

-- What a trial yields besides numbers: a profile, a time line. data is as the
-- media type says, compressed or not.

CREATE TABLE attachments (
  trial_id   INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
  name       TEXT    NOT NULL,
  media_type TEXT    NOT NULL,
  data       BLOB    NOT NULL,
  PRIMARY KEY (trial_id, name)
) STRICT, WITHOUT ROWID;
