BEGIN TRANSACTION;
CREATE TABLE documents (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    metadata TEXT NOT NULL,
    vector BLOB NOT NULL,
    revision INTEGER NOT NULL,
    text_checksum INTEGER NOT NULL DEFAULT 0,
    vector_checksum INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "documents" VALUES(1,'de/1','Ein Mann spielt Gitarre.','{"lang":"de","year":2020,"tags":["music","x"]}',X'0000803F000000000000000000000000',1,328916367,2144363237);
INSERT INTO "documents" VALUES(2,'fr/1','Un homme joue de la guitare dans la rue.','{"lang":"fr","year":2021,"source":{"site":"x","pages":[{"n":1},{"n":2}]},"source.site":"y","big":18446744073709551615}',X'0000000000000000000000000000803F',2,703654781,1364131947);
CREATE TABLE fields (
    key TEXT NOT NULL, kind TEXT NOT NULL, value NOT NULL, row INTEGER NOT NULL,
    PRIMARY KEY (key, kind, value, row)
) WITHOUT ROWID;
INSERT INTO "fields" VALUES('lang','string','de',1);
INSERT INTO "fields" VALUES('tags','string','music',1);
INSERT INTO "fields" VALUES('tags','string','x',1);
INSERT INTO "fields" VALUES('year','number',2020,1);
INSERT INTO "fields" VALUES('big','number',1.84467440737095516156e+19,2);
INSERT INTO "fields" VALUES('lang','string','fr',2);
INSERT INTO "fields" VALUES('source','other',0,2);
INSERT INTO "fields" VALUES('source.pages','other',0,2);
INSERT INTO "fields" VALUES('source.pages.n','number',1,2);
INSERT INTO "fields" VALUES('source.pages.n','number',2,2);
INSERT INTO "fields" VALUES('source.site','string','y',2);
INSERT INTO "fields" VALUES('year','number',2021,2);
CREATE TABLE store (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "store" VALUES('dim','4');
INSERT INTO "store" VALUES('fingerprint','aa');
INSERT INTO "store" VALUES('revision','3');
INSERT INTO "store" VALUES('schema_version','4');
CREATE INDEX fields_of_row ON fields (row);
CREATE INDEX documents_by_revision ON documents (revision);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('documents',3);
COMMIT;
