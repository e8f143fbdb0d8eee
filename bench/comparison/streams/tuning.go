package streams

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Tuning are settings of Kafka Streams.
type Tuning struct {
	Name string `json:"name"`
	// Threads is num.stream.threads; 0 is the default.
	Threads int `json:"threads"`
	// Java are options of Java, such as the choice of a collector.
	Java []string `json:"java,omitempty"`
	// Properties are what differs from the defaults otherwise, as name=value.
	Properties []string `json:"properties,omitempty"`
}

// Application is a program to run.
type Application struct {
	// Class is the program.
	Class string
	// ID is the application id.
	ID      string
	Brokers []string
	// Dir takes the state, in its directory state, and the file of properties.
	Dir string
	// Heap is as -Xmx has it; empty is Java's default.
	Heap string
	Tuning
	// Own are properties of the program itself.
	Own []string
}

// Command returns the command that runs the application, with these arguments after the file of
// properties. State that is in its directory is what it starts with.
func (i Installation) Command(ctx context.Context, a Application, args ...string) (*exec.Cmd, error) {
	lines := []string{
		"application.id=" + a.ID, "bootstrap.servers=" + strings.Join(a.Brokers, ","),
		"processing.guarantee=exactly_once_v2", "state.dir=" + filepath.ToSlash(filepath.Join(a.Dir, "state")),
	}
	if a.Threads > 0 {
		lines = append(lines, fmt.Sprintf("num.stream.threads=%d", a.Threads))
	}
	lines = append(append(lines, a.Properties...), a.Own...)
	properties := filepath.Join(a.Dir, "streams.properties")
	if err := os.WriteFile(properties, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	var java []string
	if a.Heap != "" {
		java = append(java, "-Xmx"+a.Heap)
	}
	java = append(append(java, a.Java...), "-XX:+ExitOnOutOfMemoryError", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", i.ClassPath, a.Class, properties)
	cmd := exec.CommandContext(ctx, i.Java, append(java, args...)...)
	cmd.WaitDelay = time.Second
	return cmd, nil
}

// String is the name with what it stands for.
func (t Tuning) String() string {
	out := t.Name
	for _, setting := range append(slices.Clone(t.Java), t.Properties...) {
		out += " `" + setting + "`"
	}
	return out
}
