package demo

// figures is what the demo compares: counted from the outputs on one side, recomputed from the
// facts on the other.
type figures struct {
	applied, duplicates, conflicts, stale, gaps        int
	contributions, reversals, recaptured, overcaptured int
	poison, invalid, deadLetters                       int
	balances                                           map[string]balance
	versions                                           map[string]int64
}

type balance struct{ count, amount int64 }

// recount computes the figures from the facts in the order of their partitions. It is deliberately
// plain, and shares nothing with the pipeline but the rules: an event that fails anywhere has no
// effect at all.
func recount(facts []fact) figures {
	out := figures{balances: map[string]balance{}, versions: map[string]int64{}}
	type said struct {
		capture, reverses, account string
		amount, version            int64
	}
	messages := map[string]said{} // by account and message id
	captures := map[string]said{} // by account and contribution id
	for _, f := range facts {
		if f.unreadable {
			out.poison++
			out.deadLetters++
			continue
		}
		if f.incomplete {
			out.invalid++
			out.deadLetters++
			continue
		}
		what := said{f.capture, f.reverses, f.account, f.amount, f.version}
		message := f.account + "/" + f.message
		if before, ok := messages[message]; ok {
			if before == what {
				out.duplicates++
			} else {
				out.conflicts++
				out.deadLetters++
			}
			continue
		}
		id := f.account + "/" + f.capture
		if f.reverses != "" {
			if _, ok := captures[f.account+"/"+f.reverses]; !ok {
				out.invalid++
				out.deadLetters++
				continue
			}
		}
		messages[message] = what
		switch have := out.versions[f.account]; {
		case f.version <= have:
			out.stale++
		default:
			if have != 0 && f.version > have+1 {
				out.gaps++
			}
			out.applied++
			out.versions[f.account] = f.version
		}
		switch before, ok := captures[id]; {
		case !ok:
			captures[id] = what
			b := out.balances[f.account]
			out.balances[f.account] = balance{b.count + 1, b.amount + f.amount}
			out.contributions++
			if f.reverses != "" {
				out.reversals++
			}
		case before.amount == f.amount:
			out.recaptured++
		default:
			out.overcaptured++
		}
	}
	return out
}
