package graph

import (
	"errors"
	"fmt"
	"regexp"
)

// The limits of names.
const (
	// NameBytesMax is the length of the longest name of a node, a store or an application id.
	NameBytesMax = 200
	// TopicBytesMax is the length of the longest topic name that Kafka allows.
	TopicBytesMax = 249
)

// The fixed parts in the names of nodes, of internal topics and of the stores of parked records.
// Those of topics are the ones of Kafka Streams.
const (
	SourceSuffix      = "-source"
	RepartitionSuffix = "-repartition"
	ChangelogSuffix   = "-changelog"
	RoundsSuffix      = "-rounds"
	ParkedSuffix      = ".parked"
	RetryInfix        = ".retry-"
)

// ChangelogTopic returns the name of a store's changelog on the cluster.
func ChangelogTopic(application, store string) string {
	return application + "-" + store + ChangelogSuffix
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// CheckName returns an error unless the name can be a part of a topic's name and of a path.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty")
	case len(name) > NameBytesMax:
		return fmt.Errorf("it has %d characters, %d are allowed", len(name), NameBytesMax)
	case name == "." || name == "..":
		return fmt.Errorf("%q is not allowed", name)
	case !namePattern.MatchString(name):
		return fmt.Errorf("%q has characters other than A-Z a-z 0-9 . _ -", name)
	}
	return nil
}

// CheckTopicName returns an error unless Kafka's rules allow the name of a topic.
func CheckTopicName(name string) error {
	if len(name) > TopicBytesMax {
		return fmt.Errorf("the topic name has %d characters, Kafka allows %d", len(name), TopicBytesMax)
	}
	if len(name) > NameBytesMax {
		return CheckName(name[:NameBytesMax])
	}
	return CheckName(name)
}
