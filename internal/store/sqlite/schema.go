package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitemigration"
	"zombiezen.com/go/sqlite/sqlitex"
)

// schema lists the steps from an empty file to today's layout. A step that has been released is never edited; a new
// layout is a new step.
//
// Rowid tables with integer keys are what group commit is fast with: against tables keyed by UUID blobs they measured
// 1.4 times the accepts. Times are microseconds since 1970.
//
//   - keys: h is 63 bits of the hash of source, tenant, verified and key; rest are 128 further bits of it.
//   - events and jobs share one sequence: the jobs made with event s are s, s+1, …; a replay takes the next number.
//   - sequence.next is a number that was not given yet, kept for when retention has removed the rows with the highest;
//     checks counts the calls of Check, which needs something to write.
//   - jobs.state 0 is both pending and running; leased tells them apart, so that a claim moves no index entry. The
//     token stays after the end of a life, to recognise a finish that is sent twice.
//   - attempts.n is job<<16 | number.
//   - lanes carry the counts of their jobs by state, written in the transaction that changes them, so that nothing ever
//     counts by scanning.
var schema = sqlitemigration.Schema{
	AppID: 0x616e766c, // "anvl"
	Migrations: []string{`
CREATE TABLE lanes(
	id INTEGER PRIMARY KEY, queue TEXT NOT NULL, endpoint TEXT NOT NULL, noted INTEGER NOT NULL,
	n0 INTEGER NOT NULL DEFAULT 0, n2 INTEGER NOT NULL DEFAULT 0, n3 INTEGER NOT NULL DEFAULT 0,
	n4 INTEGER NOT NULL DEFAULT 0, n5 INTEGER NOT NULL DEFAULT 0, n6 INTEGER NOT NULL DEFAULT 0,
	UNIQUE(queue, endpoint)
);
CREATE TABLE keys(h INTEGER PRIMARY KEY, rest BLOB NOT NULL, event INTEGER NOT NULL, expires INTEGER NOT NULL);
CREATE TABLE events(
	seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, source TEXT NOT NULL, tenant TEXT, type TEXT, provider_id TEXT,
	verified INTEGER NOT NULL, accepted INTEGER NOT NULL, jobs INTEGER NOT NULL, keys BLOB, keys_until INTEGER NOT NULL,
	pruned INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE sequence(next INTEGER NOT NULL, checks INTEGER NOT NULL);
INSERT INTO sequence VALUES(1, 0);
CREATE TABLE payloads(seq INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE jobs(
	seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, event INTEGER NOT NULL, lane INTEGER NOT NULL,
	state INTEGER NOT NULL, leased INTEGER NOT NULL DEFAULT 0, created INTEGER NOT NULL, due INTEGER NOT NULL,
	ended INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
	lost INTEGER NOT NULL DEFAULT 0, token BLOB, claimed INTEGER NOT NULL DEFAULT 0, reason TEXT, error TEXT, replay_of BLOB,
	pruned INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX jobs_due ON jobs(lane, due) WHERE state = 0;
CREATE INDEX jobs_list ON jobs(lane, state, seq) WHERE pruned = 0;
CREATE INDEX jobs_ended ON jobs(lane, state, ended) WHERE ended > 0 AND pruned = 0;
CREATE INDEX jobs_replays ON jobs(event) WHERE replay_of IS NOT NULL;
CREATE TABLE attempts(
	n INTEGER PRIMARY KEY, started INTEGER NOT NULL, duration INTEGER NOT NULL, status INTEGER NOT NULL,
	class TEXT NOT NULL, error TEXT, snippet TEXT
);
`},
}

// migrate brings the file to today's layout and refuses one that a newer version wrote.
func migrate(ctx context.Context, c *sqlite.Conn) error {
	have, err := sqlitex.ResultInt(c.Prep("PRAGMA user_version"))
	if err != nil {
		return err
	}
	appID, err := sqlitex.ResultInt(c.Prep("PRAGMA application_id"))
	if err != nil {
		return err
	}
	if have > len(schema.Migrations) {
		return fmt.Errorf("the file has layout version %d, this program knows up to %d; run the newer program, "+
			"or start with another file", have, len(schema.Migrations))
	}
	if have == len(schema.Migrations) && appID == int(schema.AppID) {
		return nil // nothing to write: a store on a full disk has to open, too
	}
	return sqlitemigration.Migrate(ctx, c, schema)
}
