-- How the condition's program is executed: command line, environment, working
-- directory, user. "null" where its study launches something else.
ALTER TABLE conditions ADD COLUMN process_json TEXT NOT NULL DEFAULT 'null';
