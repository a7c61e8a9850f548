//go:build !race

package invariant

// RaceDetector says whether this is a build with the race detector.
const RaceDetector = false
