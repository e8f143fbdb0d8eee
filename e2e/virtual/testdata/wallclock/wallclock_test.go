// Package wallclock is what the search for waits on the wall clock has to find, and what it must not find. It is not compiled.
package wallclock

const patience = time.Minute

// Lines with "// found" are those that the search returns.

func TestOutside(t *testing.T) {
	time.Sleep(time.Hour)                                          // found
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // found
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	ctx, cancel = context.WithTimeoutCause(ctx, 20*time.Millisecond, errors.New("late")) // found
	ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(5*interval))          // found
	ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(15*interval))         // as long as it has to be
	conn.SetReadDeadline(time.Now().Add(time.Second))                                    // found
	conn.SetReadDeadline(time.Now().Add(patience))                                       // long enough
	for deadline := time.Now().Add(interval + 500*time.Millisecond); !done(deadline); {  // found
	}
	for deadline := time.Now().Add(patience); !done(deadline); {
	}
	select {
	case <-time.After(interval / 2): // found
	case <-time.After(patience):
	case <-time.NewTimer(time.Duration(1_000_000_000)).C: // found
	}
	time.AfterFunc(0.5*interval, cancel)                  // found
	if took := time.Since(began); took > 10*time.Second { // found
	}
	if took := time.Since(began); took < time.Second { // a lower bound holds on any machine
	}
	if time.Since(began) >= interval { // found
	}
	if took := time.Since(began); 10*time.Second < took { // found
	}
	if took := time.Since(began); took > patience {
	}
	t.Run("nested", func(t *testing.T) {
		time.Sleep(interval) // found
	})
	twice(t)
	notOnlyInBubbles()
	table := []func(){
		func() { time.Sleep(interval) }, // found
	}
	outsideToo(t, func(t *testing.T) {
		time.Sleep(interval) // found
	})
}

func TestInside(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		if took := time.Since(began); took > interval {
		}
		helper(t)
		s.method()
		notOnlyInBubbles()
	})
	synctest.Test(t, named)
	t.Run("nested", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { time.Sleep(time.Hour) })
		time.Sleep(interval) // found
	})
	inBubble(t, func(t *testing.T, s *scene) {
		time.Sleep(time.Hour)
	})
	virtual.Test(t, make(func() { time.Sleep(interval) })) // found
}

// helper and what it calls are called in bubbles alone.
func helper(t *testing.T) {
	time.Sleep(time.Hour)
	deeper(t)
}

func deeper(t *testing.T) {
	time.Sleep(time.Hour)
	helper(t)
}

func named(t *testing.T) { time.Sleep(time.Hour) }

func (s *scene) method() { time.Sleep(time.Hour) }

// Fetch is called by nothing that can be seen.
func (s *scene) Fetch() {
	<-time.After(time.Millisecond) // found
}

func notOnlyInBubbles() {
	time.Sleep(interval) // found
}

// inBubble is a starter as well.
func inBubble(t *testing.T, f func(t *testing.T, s *scene)) {
	time.Sleep(interval) // found
	virtual.Test(t, func(t *testing.T) { f(t, newScene(t)) })
}

func twice(t *testing.T) {
	inBubble(t, func(t *testing.T, s *scene) { time.Sleep(time.Hour) })
}

// outsideToo is none: it calls what it is given outside of the bubble as well.
func outsideToo(t *testing.T, f func(t *testing.T)) {
	virtual.Test(t, f)
	f(t)
}
