//go:build unix

package flights

import (
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/onceward/onceward/e2e/flights/recompute"
)

const (
	malformedCount = 100
	// malformedSeed is any number; changing it puts other malformed records at other places.
	malformedSeed = 20130704
)

// malformedAmong returns n malformed records of all kinds in turn, behind rows that the seed chooses.
func malformedAmong(rows []recompute.Row, n int) []recompute.Malformed {
	random := rand.New(rand.NewPCG(malformedSeed, uint64(len(rows))))
	out := make([]recompute.Malformed, n)
	for i := range out {
		row := &rows[random.IntN(len(rows))]
		kind := recompute.Kind(i) % recompute.Kinds
		out[i] = recompute.Malformed{Kind: kind, After: row.Line, Value: spoil(kind, row, random)}
	}
	return out
}

// spoil returns the record of a row with one thing wrong.
func spoil(kind recompute.Kind, row *recompute.Row, random *rand.Rand) []byte {
	v := strings.Split(strconv.Itoa(row.Line)+","+row.Text, ",")
	pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	switch kind {
	case recompute.FewColumns:
		v = v[:1+random.IntN(columns-1)]
	case recompute.DelayNotNumber:
		v[columnDelay] = pick("late", "1e2", "0x10", "12 ", "99999999999")
	case recompute.ScheduledNotMinutes:
		v[columnScheduled] = pick("2013-07-04T12:00:00Z", "", "-1", "1372939200000", "22617255.5")
	case recompute.NotUTF8:
		v[columnDestination] = pick("\xff", "M\xc3\x28X", "\xed\xa0\x80")
	case recompute.NoCarrier:
		v[columnCarrier] = ""
	}
	return []byte(strings.Join(v, ","))
}
