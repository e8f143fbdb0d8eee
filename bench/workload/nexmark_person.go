package workload

import (
	"encoding/binary"
	"fmt"
)

// Sizes of the texts of a person, and of the kind and the fields together.
const (
	personTextBytes   = 16
	stateBytes        = 2
	personFieldsBytes = 1 + 2*8 + 2*personTextBytes + stateBytes
)

// person is a person whom queries look at.
type person struct {
	id uint64
	// at is in milliseconds since the epoch.
	at int64
	// name and city are padded with zeros.
	name, city [personTextBytes]byte
	state      [stateBytes]byte
}

// The texts of persons. As many names, cities and states as in the original have as many
// combinations. Half of the states are those of q3.
var (
	firstNames = []string{"Ada", "Bruno", "Clara", "Dario", "Elena", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Klara"}
	lastNames  = []string{"Bauer", "Costa", "Dubois", "Fischer", "Keller", "Moreau", "Novak", "Rossi", "Vogel"}
	cities     = []string{
		"Boise", "Casper", "Eugene", "Fresno", "Laramie", "Oakland", "Salem", "Spokane", "Tacoma", "Tucson",
	}
	states = []string{"AZ", "CA", "ID", "OR", "WA", "WY"}
)

// person makes the person of the n-th group of 50 events.
func (a *auctions) person(n uint64, at int64) person {
	one := func(of []string) string { return of[a.fields.IntN(len(of))] }
	p := person{id: firstPerson + n, at: at}
	copy(p.name[:], one(firstNames)+" "+one(lastNames))
	copy(p.city[:], one(cities))
	copy(p.state[:], one(states))
	return p
}

func (p person) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, nexmarkPerson), p.id)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.at))
	dst = append(append(dst, p.name[:]...), p.city[:]...)
	return append(dst, p.state[:]...)
}

// decodePerson reads a person with any padding.
func decodePerson(value []byte) (p person, err error) {
	if len(value) < personFieldsBytes || value[0] != nexmarkPerson {
		return p, fmt.Errorf("a value of %d bytes is no person", len(value))
	}
	p.id, p.at = binary.BigEndian.Uint64(value[1:]), int64(binary.BigEndian.Uint64(value[9:]))
	p.name, p.city = [personTextBytes]byte(value[17:]), [personTextBytes]byte(value[33:])
	p.state = [stateBytes]byte(value[49:])
	return p, nil
}
