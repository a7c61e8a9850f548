//go:build !race

package invariant

const raceDetector = false
