package limit

import "fmt"

// Counters are one direction's totals of a scope since it was loaded.
type Counters struct {
	Packets  uint64 `json:"packets"`  // admitted, as the stack hands them over
	Segments uint64 `json:"segments"` // admitted, as they go on the wire
	Bytes    uint64 `json:"bytes"`    // admitted, on the wire
	Marked   uint64 `json:"marked"`
	Reduced  uint64 `json:"reduced"`
	Refused  uint64 `json:"refused"`
	Forced   uint64 `json:"forced"`
	Retries  uint64 `json:"retries"`
	Windows  uint64 `json:"windows"` // receive windows of TCP sockets set; ingress alone
	// Queue counts packets by virtual queue: [2^i, 2^(i+1)) µs in entry i, below 2 µs in entry 0.
	Queue [32]uint64 `json:"queue"`
	// RTT counts the round-trip times that the scope's TCP senders have measured, in the buckets of Queue. A connection's
	// samples count in both directions; one that only receives has none after its handshake. RTTSum is their sum.
	RTT    [32]uint64 `json:"rtt"`
	RTTSum uint64     `json:"rtt_sum_us"`
}

// Counters sums a scope's counters over all processors.
func (p *DataPlane) Counters(scope int, direction Direction) (Counters, error) {
	var sum Counters
	if err := p.known(scope); err != nil {
		return sum, err
	}
	index := uint32(2*scope) + uint32(direction)
	var counts []limitLimitCounters
	if err := p.objects.LimitCounts.Lookup(index, &counts); err != nil {
		return sum, fmt.Errorf("read counters of scope %d: %w", scope, err)
	}
	var times []limitLimitRtt
	if err := p.objects.LimitRtts.Lookup(uint32(scope), &times); err != nil {
		return sum, fmt.Errorf("read round-trip times of scope %d: %w", scope, err)
	}
	for _, c := range counts {
		sum.Packets += c.Packets
		sum.Segments += c.Segments
		sum.Bytes += c.Bytes
		sum.Marked += c.Marked
		sum.Reduced += c.Reduced
		sum.Refused += c.Refused
		sum.Forced += c.Forced
		sum.Retries += c.Retries
		sum.Windows += c.Windows
		addEach(&sum.Queue, c.Queue)
	}
	for _, t := range times {
		addEach(&sum.RTT, t.Count)
		sum.RTTSum += t.SumUs
	}
	return sum, nil
}

func addEach(sum *[32]uint64, counts [32]uint64) {
	for i, n := range counts {
		sum[i] += n
	}
}

// Percentile is the upper bound of the bucket of Queue or RTT in which the share p (0 to 1) of the counts is reached, in µs;
// 0 without counts. It is at most twice the true value.
func Percentile(counts [32]uint64, p float64) float64 {
	total := uint64(0)
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return 0
	}
	reached := uint64(0)
	for i, n := range counts {
		if reached += n; float64(reached) >= p*float64(total) {
			return float64(uint64(2) << i)
		}
	}
	return float64(uint64(2) << (len(counts) - 1))
}
