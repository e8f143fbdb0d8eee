package work

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// TestReason: a reason says what can be said, quotes nothing that a caller has wrapped around an
// error, and can be stored.
func TestReason(t *testing.T) {
	const secret = "4111-1111"
	quoting := func(err error) error { return fmt.Errorf("card %s: %w", secret, err) }
	for _, c := range []struct {
		err  error
		want string
	}{
		{quoting(io.EOF), "error of type *errors.errorString"},
		{quoting(Failed("insert entries", io.ErrUnexpectedEOF)), "insert entries: unexpected EOF"},
		{quoting(&pgconn.PgError{Code: "23505", Message: secret, Detail: secret, ConstraintName: "one", TableName: "cards"}), "SQLSTATE 23505, constraint one of table cards"},
		{&LostError{quoting(io.EOF)}, "the connection to the database was lost"},
		{quoting(ErrSwallowed), "the function has returned no error"},
		{quoting(ErrNotYours), "the function must not commit"},
		{topology.Fail(topology.Validation, schemas.Reason("no\x00 amount \xff")), "no\uFFFD amount \uFFFD"},
	} {
		if got := Reason(c.err); !strings.HasPrefix(got, c.want) || strings.Contains(got, secret) {
			t.Errorf("%v: the reason is %q, want %q", c.err, got, c.want)
		}
	}
	if got := Text(strings.Repeat("ä", 600)); len(got) != textBytesMax || strings.Trim(got, "ä") != "" {
		t.Errorf("a long text becomes %d bytes", len(got))
	}
}

// TestOwn: an error that a caller's function returns is not one of the package that calls it, also
// if it comes from this module.
func TestOwn(t *testing.T) {
	failed := Failed("begin", io.EOF)
	if !Own(fmt.Errorf("run: %w", failed)) || Own(io.EOF) || Own(nil) {
		t.Error("the statements of a package are its own, and nothing else")
	}
	err := Call(func() error { return failed })
	if Own(err) || !errors.Is(err, io.EOF) || err.Error() != failed.Error() {
		t.Errorf("%v of a function is taken for an own one", err)
	}
	if err := Call(func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := Call(func() error { panic("4111") }); topology.ClassOf(err) != topology.Poison || strings.Contains(err.Error(), "4111") {
		t.Errorf("a panic is %v", err)
	}
}

// TestBegin: a limit that the server cannot express is its longest.
func TestBegin(t *testing.T) {
	for idle, want := range map[time.Duration]string{time.Second: "= 1000", 100 * 24 * time.Hour: "= 2147483647"} {
		if got := Begin(pgx.Serializable, idle); !strings.HasPrefix(got, "begin isolation level serializable; ") || !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s", idle, got)
		}
	}
}
