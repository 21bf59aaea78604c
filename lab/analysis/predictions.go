package analysis

import "weir/record"

// predictions are what the throughput equations say at the loss event rate and round-trip time of this very run.
func (f flow) predictions(a attempt, name string) []record.Sample { return nil }
