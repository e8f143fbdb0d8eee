package txn

import "strings"

func (a *App) start() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.ran {
		return false
	}
	a.mu.ran, a.mu.state = true, Starting
	return true
}

func (a *App) setState(s State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.state, a.mu.reason = s, ""
}

// reconnecting says that another membership follows, and why.
func (a *App) reconnecting(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.state, a.mu.reason = Reconnecting, strings.ReplaceAll(why.Error(), "\n", "; ")
}

func (a *App) setWatch(w *watch, address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.watch, a.mu.peersAddress = w, address
}

// endWatch says that other instances are not asked any more.
func (a *App) endWatch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.watch = nil
}
