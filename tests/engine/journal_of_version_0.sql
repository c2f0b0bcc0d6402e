BEGIN TRANSACTION;
CREATE TABLE action (identity text primary key, digest text not null, at real not null) without rowid;
INSERT INTO "action" VALUES('zaction.run[once]','c11f657dda68a027a4d3e6ee821a7776b2a51efb49d756cd577bf29c4eb6416e',1000000000.0);
CREATE TABLE counter (identity text primary key, changes integer not null, failures integer not null) without rowid;
INSERT INTO "counter" VALUES('zsetting.present[conf]',1,0);
CREATE TABLE delivered (
    upstream text, downstream text, kind text, count integer not null, primary key (upstream, downstream, kind)) without rowid;
INSERT INTO "delivered" VALUES('zsetting.present[conf]','zaction.run[hook]','onchanges',0);
INSERT INTO "delivered" VALUES('zsetting.present[conf]','zsetting.present[svc]','watch',0);
INSERT INTO "delivered" VALUES('zsetting.present[conf]','zsetting.present[told]','watch',1);
CREATE TABLE failing (identity text primary key) without rowid;
CREATE TABLE intent (identity text primary key) without rowid;
CREATE TABLE received (identity text, argument text, digest text not null, primary key (identity, argument)) without rowid;
CREATE TABLE reversals (
    identity text, name text, kind text not null, arguments text not null, kept text not null, primary key (identity, name));
CREATE TABLE sent (identity text primary key, content text not null) without rowid;
COMMIT;
