package flights

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

const (
	malformedCount = 100
	// malformedSeed is any number; changing it puts other malformed records at other places.
	malformedSeed = 20130704
)

// malformedAmong returns n malformed records of all kinds in turn, behind rows that the seed
// chooses.
func malformedAmong(rows []dataRow, n int) []malformedRecord {
	random := rand.New(rand.NewPCG(malformedSeed, uint64(len(rows))))
	out := make([]malformedRecord, n)
	for i := range out {
		row := &rows[random.IntN(len(rows))]
		kind := malformation(i) % malformations
		out[i] = malformedRecord{Kind: kind, After: row.Line, Value: spoil(kind, row, random)}
	}
	return out
}

// spoil returns the record of a row with one thing wrong.
func spoil(kind malformation, row *dataRow, random *rand.Rand) []byte {
	v := strings.Split(strconv.Itoa(row.Line)+","+row.Text, ",")
	pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	switch kind {
	case fewColumns:
		v = v[:1+random.IntN(columns-1)]
	case delayNotNumber:
		v[columnDelay] = pick("late", "1e2", "0x10", "12 ", "99999999999")
	case scheduledNotMinutes:
		v[columnScheduled] = pick("2013-07-04T12:00:00Z", "", "-1", "1372939200000", "22617255.5")
	case notUTF8:
		v[columnDestination] = pick("\xff", "M\xc3\x28X", "\xed\xa0\x80")
	case noCarrier:
		v[columnCarrier] = ""
	}
	return []byte(strings.Join(v, ","))
}
