//go:build race

package simulate

// raceDetector: worlds are some ten times slower.
const raceDetector = true
