//go:build !onceward_broken

package runtime_test

// commitsEarly is true in the negative control: see early_on_test.go.
const commitsEarly = false
