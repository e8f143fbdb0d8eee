//go:build synctests

package virtual

// tagged says whether franz-go is built for bubbles.
const tagged = true
