package run

import (
	"context"

	"weir/lab/scenario"
)

// runStreams runs the phase's tester streams.
func runStreams(_ context.Context, _ *Bench, phase scenario.Phase) []StreamResult {
	results := make([]StreamResult, len(phase.Streams))
	for i, stream := range phase.Streams {
		results[i] = StreamResult{Stream: stream, Problem: "this build has no frame tester"}
	}
	return results
}
