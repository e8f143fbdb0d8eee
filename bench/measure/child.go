package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Command is [Self] for another program.
func Command(ctx context.Context, program, name string, settings any) (*exec.Cmd, error) {
	encoded, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), name+"="+string(encoded))
	return cmd, nil
}

// Run makes this program a child and exits, if [Self] or [Command] has started it as such, with
// settings in the variable name; what ends it is told in one line on the standard error. Else it
// returns. A program that starts itself calls it first.
func Run[S any](name string, run func(S) error) {
	var s S
	child, err := Settings(name, &s)
	if !child {
		return
	}
	if err == nil {
		err = run(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "instance:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// UntilTold returns the context of a child that works until it is told to end, which SIGTERM does.
// When its standard input ends the process exits at once: whoever has started it is gone.
func UntilTold() (ctx context.Context, stop context.CancelFunc) {
	go func() {
		AwaitEnd()
		fmt.Fprintln(os.Stderr, "instance: whoever has started this process is gone")
		os.Exit(1)
	}()
	return signal.NotifyContext(context.Background(), syscall.SIGTERM)
}
