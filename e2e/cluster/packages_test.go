package cluster

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// asksForKafka is how make test-kafka finds the packages with tests on real Kafka. The Makefile has
// the same functions.
var asksForKafka = regexp.MustCompile(`cluster\.(Kafka|Each|EachKind|Own|OwnWith|Java)\b`)

// TestKafkaIsAskedForInTests: make test-kafka looks into test files only. A helper that asks for a
// broker in another file would hide the packages that call it.
func TestKafkaIsAskedForInTests(t *testing.T) {
	found := 0
	look := func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "cluster" {
			return fs.SkipDir // this package, which the Makefile names
		}
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil || !asksForKafka.Match(source) {
			return err
		}
		if found++; !strings.HasSuffix(path, "_test.go") {
			t.Errorf("%s asks for a broker of a test, and make test-kafka does not look there", path)
		}
		return nil
	}
	err := errors.Join(filepath.WalkDir("..", look), filepath.WalkDir("../../examples", look))
	if err != nil || found < 10 {
		t.Errorf("%d files ask for a broker, %v", found, err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if want := strings.TrimSuffix(asksForKafka.String(), `\b`); err != nil || !strings.Contains(string(makefile), want) {
		t.Errorf("the Makefile does not look for %s: %v", want, err)
	}
}
