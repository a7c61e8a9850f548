//go:build race

package invariant

const raceDetector = true
