package security_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/onceward/onceward/txn/security"
)

// checkError asserts that err is one line that matches want, an *security.Error, and shows no
// secret.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Fatalf("refused: %v", err)
	case want == "":
		return
	case err == nil:
		t.Fatal("accepted")
	}
	if _, ok := errors.AsType[*security.Error](err); !ok {
		t.Errorf("%T has no *security.Error in it", err)
	}
	if text := err.Error(); !regexp.MustCompile("^"+want).MatchString(text) || strings.Contains(text, "\n") || strings.Contains(text, canary) {
		t.Errorf("the error is %q, want one line that matches %q and shows no secret", text, want)
	}
}
