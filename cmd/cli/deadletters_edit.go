package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"unicode/utf8"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/onceward/onceward/txn/admin"
)

// deadLettersEditCommand writes another edition of a dead letter.
type deadLettersEditCommand struct {
	ID string `arg:"" placeholder:"ID" help:"The id of the dead letter, as list shows it."`
	letterTopic
	Patch     string  `placeholder:"FILE" help:"Change the value by this JSON patch (RFC 6902); - is the standard input."`
	ValueFile string  `placeholder:"FILE" help:"Replace the value by the bytes of this file; - is the standard input."`
	Key       *string `placeholder:"KEY" help:"Replace the key by which the application knows the record; it is redriven to the partition of that key."`
	Force     bool    `help:"Take a value that the codec of the record's topic cannot read."`
}

// Help is for --help.
func (c *deadLettersEditCommand) Help() string {
	return "Without --patch, --value-file or --key the value is opened in the editor that VISUAL or EDITOR names: JSON, the JSON " +
		"form of the topic's codec, or text. The edited record is another edition in the dead-letter topic, behind the " +
		"original; redrive takes the newest. A running redrive of the topic ends; run it again."
}

func (c *deadLettersEditCommand) Run(p *process) error {
	if c.Patch != "" && c.ValueFile != "" {
		return usage("--patch and --value-file are both given; give one of them")
	}
	o, err := c.open(p)
	if err != nil {
		return err
	}
	defer o.close()
	l, err := o.Find(p.ctx, c.ID)
	if err != nil {
		return err
	}
	if !l.Redriven.IsZero() {
		return fmt.Errorf("letter %s: %w", c.ID, admin.ErrDeadLetterRedriven)
	}
	form := formOf(l.Value, o.encoder(l.To.Topic, encodingAuto))
	before := l
	switch {
	case c.Patch != "":
		l.Value, err = c.patched(p, form)
	case c.ValueFile != "":
		l.Value, err = readGiven(p, "--value-file", c.ValueFile)
	case c.Key == nil:
		l.Value, err = edited(p.ctx, p, form, func(v []byte) error { return c.readable(form, v) })
	}
	if err != nil {
		return err
	}
	if c.Key != nil {
		l.SetOwnKey([]byte(*c.Key))
	}
	if bytes.Equal(l.Value, before.Value) && (l.Value == nil) == (before.Value == nil) &&
		bytes.Equal(l.OwnKey(), before.OwnKey()) {
		_, err := fmt.Fprintln(p.out, "nothing was changed")
		return err
	}
	if err := c.readable(form, l.Value); err != nil {
		return err
	}
	if err := o.Edit(p.ctx, l); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "letter %s: edition %d; redrive --id %s writes it to %s\n",
		oneLine(l.ID), l.Edition+1, oneLine(l.ID), oneLine(l.To.String()))
	if err == nil && !c.Force && !form.encoder.decodes {
		_, err = fmt.Fprintln(p.out, "the value was not checked: the codec of the topic is not known; --file or --topology names a pipeline that has it")
	}
	return err
}

// readable refuses what the application could not read.
func (c *deadLettersEditCommand) readable(form valueForm, value []byte) error {
	if c.Force || !form.encoder.decodes {
		return nil
	}
	if _, err := form.encoder.rows.Value(value); err != nil {
		return fmt.Errorf("the application could not read this value: %w; --force takes it all the same", err)
	}
	return nil
}

// patched applies the patch.
func (c *deadLettersEditCommand) patched(p *process, form valueForm) ([]byte, error) {
	text, err := readGiven(p, "--patch", c.Patch)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, usage("--patch: %s is no JSON patch: a list of operations such as "+
			"[{\"op\": \"add\", \"path\": \"/id\", \"value\": 1}]", c.Patch)
	}
	if !form.json {
		return nil, errors.New("the value is no JSON, and no known codec makes JSON of it; give the value itself with --value-file")
	}
	out, err := patch.Apply(form.text)
	if err != nil {
		return nil, fmt.Errorf("--patch: %s cannot be applied: %w", c.Patch, errPatch(err))
	}
	return form.parse(out)
}

// errPatch says why a patch failed. The library's texts quote paths and not values, except for a
// test that fails.
func errPatch(err error) error {
	if errors.Is(err, jsonpatch.ErrTestFailed) {
		return errors.New("a test in it failed")
	}
	return err
}

// readGiven reads a file that a flag names.
func readGiven(p *process, flag, name string) ([]byte, error) {
	var b []byte
	var err error
	if name == "-" {
		b, err = io.ReadAll(p.in)
	} else {
		b, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, usage("%s: %w", flag, err)
	}
	return b, nil
}

// valueForm is a value as a person can edit it.
type valueForm struct {
	encoder rowEncoder
	value   []byte
	// text is what is edited; json says that it is JSON, binary that there is nothing a person
	// could read.
	text         []byte
	json, binary bool
	// parse makes a value of what was edited.
	parse func(text []byte) ([]byte, error)
}

// formOf returns the form of a value: itself if it is JSON, because a codec leaves out what it does
// not know; else the JSON that the codec makes of it; else text.
func formOf(value []byte, e rowEncoder) valueForm {
	f := valueForm{encoder: e, value: value, text: value, parse: func(text []byte) ([]byte, error) { return text, nil }}
	if json.Valid(value) {
		f.json, f.parse = true, compacted
		return f
	}
	if e.decodes && value != nil {
		if v, err := e.rows.Value(value); err == nil {
			if _, isText := v.(string); !isText {
				if text, err := marshal(v); err == nil {
					f.text, f.json = text, true
					f.parse = func(text []byte) ([]byte, error) { return e.rows.ParseValue(string(text)) }
					return f
				}
			}
		}
	}
	f.binary = !utf8.Valid(value)
	return f
}

func compacted(text []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return nil, errors.New("what was edited is no JSON")
	}
	return out.Bytes(), nil
}

// edited opens the value in an editor. If the edited value is refused, it is kept in the file,
// which the error names.
func edited(ctx context.Context, p *process, form valueForm, check func([]byte) error) ([]byte, error) {
	if form.binary {
		return nil, errors.New("the value is no text, and no known codec makes text of it; give the value itself with --value-file")
	}
	editor := os.Getenv("VISUAL")
	if editor == "" {
		editor = os.Getenv("EDITOR")
	}
	if editor == "" {
		return nil, usage("neither VISUAL nor EDITOR names an editor; set one, or give --patch or --value-file")
	}
	dir, err := os.MkdirTemp("", "onceward-edit-") // 0700: the record may be confidential
	if err != nil {
		return nil, err
	}
	shown, name := form.text, filepath.Join(dir, "value.txt")
	if form.json {
		var out bytes.Buffer
		if err := json.Indent(&out, form.text, "", "  "); err == nil {
			shown, name = append(out.Bytes(), '\n'), filepath.Join(dir, "value.json")
		}
	}
	value, err := editFile(ctx, p, editor, name, shown, form)
	if err == nil {
		err = check(value)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; what was edited is kept in %s", err, name)
	}
	return value, os.RemoveAll(dir)
}

// editFile writes a file, runs the editor on it, and makes a value of what is there afterwards.
func editFile(ctx context.Context, p *process, editor, name string, shown []byte, form valueForm) ([]byte, error) {
	if err := os.WriteFile(name, shown, 0o600); err != nil {
		return nil, err
	}
	// By the shell, as other tools do: the variable may have arguments.
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "editor", name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.in, p.out, p.err
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the editor %s failed: %w", editor, err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(text, shown) {
		return form.value, nil
	}
	return form.parse(text)
}
