package sqlite

import (
	"net/url"

	"zombiezen.com/go/sqlite"

	"github.com/caddy-anvil/anvil/internal/event"
)

// null is bound as NULL.
type null struct{}

// bind sets the parameters of a statement in order.
func bind(st *sqlite.Stmt, args []any) {
	for i, a := range args {
		n := i + 1
		switch v := a.(type) {
		case int64:
			st.BindInt64(n, v)
		case int:
			st.BindInt64(n, int64(v))
		case event.State:
			st.BindInt64(n, int64(v))
		case bool:
			st.BindBool(n, v)
		case string:
			st.BindText(n, v)
		case []byte:
			st.BindBytes(n, v)
		case event.ID:
			st.BindBytes(n, v[:])
		case null:
			st.BindNull(n)
		default:
			panic("sqlite: parameter of a type that bind does not know")
		}
	}
}

// query runs q and calls row for each row. Numbers in joins, ranges and limits are written "?+0": a bare "?" there lets
// the planner look at the value, and each new value then compiles the statement again, at ten times the cost of running
// it.
func query(c *sqlite.Conn, q string, row func(r *sqlite.Stmt) error, args ...any) error {
	st, err := c.Prepare(q)
	if err != nil {
		return err
	}
	bind(st, args)
	for {
		more, err := st.Step()
		if err != nil {
			return err
		}
		if !more {
			return nil
		}
		if err := row(st); err != nil {
			_ = st.Reset() // repeats the error of the last step
			return err
		}
	}
}

// exec runs a statement that gives no rows.
func exec(c *sqlite.Conn, q string, args ...any) error {
	return query(c, q, func(*sqlite.Stmt) error { return nil }, args...)
}

// orNull keeps empty strings out of the rows.
func orNull(s string) any {
	if s == "" {
		return null{}
	}
	return s
}

func blob(r *sqlite.Stmt, col int) []byte {
	b := make([]byte, r.ColumnLen(col))
	r.ColumnBytes(col, b)
	return b
}

func columnID(r *sqlite.Stmt, col int) event.ID {
	var b [16]byte
	if r.ColumnBytes(col, b[:]) != len(b) {
		return event.ID{}
	}
	return b
}

// uriEscape writes a path into a file: URI.
func uriEscape(path string) string { return (&url.URL{Path: path}).EscapedPath() }
