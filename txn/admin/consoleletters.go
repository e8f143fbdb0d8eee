package admin

import (
	"context"
	"errors"

	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/console"
)

// ConsoleLetters gives the console of an application access to its dead letters
// ([txn.Console].DeadLetters). It connects to the cluster for each request, with the principal of
// cfg, which takes the permissions of `onceward deadletters`. It may be used by any number of
// goroutines and applications.
func ConsoleLetters(cfg Config) txn.DeadLetters { return consoleLetters{cfg} }

// consoleLetters is part of console.Letters.
type consoleLetters struct{ cfg Config }

// consoleRecords is how many records of a dead-letter topic a list reads.
const consoleRecords = 20_000

// consoleBytes bounds what a list reads of them. A larger end of the topic is read in a smaller part.
const consoleBytes = 256 << 20

// Newest is part of console.Letters.
func (c consoleLetters) Newest(ctx context.Context, topic string, f console.LetterFilter, most int, content console.ContentFunc) (out console.LetterList, err error) {
	client, err := ConnectWith(ctx, c.cfg)
	if err != nil {
		return out, err
	}
	defer client.Close()
	filter := DeadLetterFilter{Redriven: f.Redriven}
	if f.Class.Valid() {
		filter.Classes = append(filter.Classes, f.Class)
	}
	if f.Topic != "" {
		filter.Topics = append(filter.Topics, f.Topic)
	}
	// One more says that there are more.
	found, looked, err := client.DeadLetters(topic).newest(ctx, filter, newestOptions{
		most: most + 1, records: consoleRecords, bytes: consoleBytes, content: content,
	})
	if err != nil {
		return out, err
	}
	return console.LetterList{Letters: found[:min(most, len(found))], More: len(found) > most, Looked: looked}, nil
}

// shownLetter is a dead letter as the console shows it. It holds no memory of the record.
func shownLetter(l *DeadLetter, content console.ContentFunc) console.Letter {
	out := console.Letter{
		ID: l.ID, Deaths: l.Deaths, Edition: l.Edition, Application: l.Application, Task: l.Task, Node: l.Node,
		Class: l.Class.String(), Message: l.Message, Attempts: l.Attempts, FirstFailure: l.FirstFailure.UTC(), LastFailure: l.LastFailure.UTC(),
		Origin: console.Position{Topic: l.Origin.Topic, Partition: l.Origin.Partition, Offset: l.Origin.Offset},
		At:     console.Position{Partition: l.Partition, Offset: l.Offset}, To: l.To.String(), Cut: l.Cut,
	}
	if content != nil {
		shown := content(l.To.Topic, l.Key, l.Value)
		out.Content = &shown
	}
	if l.Source.Topic != "" {
		out.Source = &console.Position{Topic: l.Source.Topic, Partition: l.Source.Partition, Offset: l.Source.Offset}
	}
	if !l.Redriven.IsZero() {
		at := l.Redriven.UTC()
		out.Redriven = &at
	}
	return out
}

// nameOf returns how the console names a dead letter.
func nameOf(l *DeadLetter) console.LetterName {
	return console.LetterName{ID: l.ID, Deaths: l.Deaths, At: console.Position{Partition: l.Partition, Offset: l.Offset}}
}

// Redrive is part of console.Letters.
func (c consoleLetters) Redrive(ctx context.Context, topic string, named []console.LetterName, dry bool) (out []console.LetterOutcome, err error) {
	if len(named) == 0 {
		return nil, errors.New("no dead letter is named")
	}
	client, err := ConnectWith(ctx, c.cfg)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	wanted := map[console.LetterName]*console.LetterOutcome{}
	partitions := map[int32]bool{}
	for _, name := range named {
		wanted[name], partitions[name.At.Partition] = nil, true
	}
	_, err = client.DeadLetters(topic).Redrive(ctx, RedriveOptions{
		DryRun: dry, partitions: partitions,
		named: func(l *DeadLetter) bool {
			_, named := wanted[nameOf(l)]
			return named
		},
		Step: func(l DeadLetter, outcome RedriveOutcome) error {
			wanted[nameOf(&l)] = &console.LetterOutcome{LetterName: nameOf(&l), To: l.To.String(), Outcome: string(outcome)}
			return nil
		},
	})
	for _, name := range named {
		outcome, first := wanted[name]
		delete(wanted, name) // it is named once in the answer
		switch {
		case outcome != nil:
			out = append(out, *outcome)
		case first && err == nil: // all were looked at
			out = append(out, console.LetterOutcome{LetterName: name, Outcome: console.Changed})
		}
	}
	return out, err
}
