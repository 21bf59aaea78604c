// SPDX-License-Identifier: Apache-2.0

package link

// Difference returns the counters between two readings of the same cables. Values that are no sums
// come from the later reading.
func Difference(after, before []Status) []Status {
	var all []Status
	for n, a := range after {
		if n < len(before) && before[n].Cable == a.Cable {
			a.Forward.subtract(&before[n].Forward)
			a.Reverse.subtract(&before[n].Reverse)
		}
		all = append(all, a)
	}
	return all
}

func (c *Counters) subtract(before *Counters) {
	c.Received -= before.Received
	c.ReceivedBytes -= before.ReceivedBytes
	c.Sent -= before.Sent
	c.SentBytes -= before.SentBytes
	c.QueueDrops -= before.QueueDrops
	c.LossDrops -= before.LossDrops
	c.Marked -= before.Marked
	c.Duplicated -= before.Duplicated
	c.Reordered -= before.Reordered
	c.Corrupted -= before.Corrupted
	c.Overruns -= before.Overruns
	c.Uncaptured -= before.Uncaptured
}
