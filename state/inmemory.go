package state

import "slices"

// inMemorySuffix follows the name of a store whose rows are in memory, in the positions on the
// disk. No store has a name with a space, so no build takes such a position for one of rows.
const inMemorySuffix = " (in memory)"

// OnDisk returns what the disk keeps of p where the rows of some stores are in memory. There are no
// rows of such a store on the disk, so it has no position there. It has a note under a name of its
// own: how far the changelog of the store was when the rest was written. A restore begins at
// the start of that changelog, and judges the other stores by the note; see InMemory. A store that
// has taken no record of a changelog has no note, and so has one without a changelog.
func (p Positions) OnDisk(inMemory func(store string) bool) Positions {
	q := p
	q.Changelogs = slices.DeleteFunc(slices.Clone(p.Changelogs), func(c Changelog) bool { return inMemory(c.Store) })
	for _, c := range p.Changelogs {
		if !inMemory(c.Store) {
			continue
		}
		q.ForgetInMemory(c.Store)
		if c.Applied > 0 {
			q.SetChangelog(Changelog{Store: c.Store + inMemorySuffix, TopicID: c.TopicID, Applied: c.Applied, Scanned: c.Applied})
		}
	}
	return q
}

// InMemory returns the note that OnDisk has left of a store; ok is false if there is none. It says
// nothing of rows.
func (p Positions) InMemory(store string) (note Changelog, ok bool) {
	return p.Changelog(store + inMemorySuffix)
}

// ForgetInMemory removes the note of a store. It changes the slice in place: a shared value is
// cloned first.
func (p *Positions) ForgetInMemory(store string) {
	p.Changelogs = slices.DeleteFunc(p.Changelogs, func(c Changelog) bool { return c.Store == store+inMemorySuffix })
}
