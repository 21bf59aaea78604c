package limit

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// A sender whose calls wait for their answers is behind the fair rate where an exchange takes longer than its octets at that rate,
// which on every machine it does here. It is paced faster, at three times the fair rate and the scope's own rate at most, but not
// where a mark threshold holds a few packets of it.
func TestSenderThatIsBehindCatchesUp(t *testing.T) {
	const octets = 3_000_000_000 // a second's of the scope; SO_MAX_PACING_RATE has 32 bits
	for name, c := range map[string]struct {
		fair, least, most uint64 // octet/s
		mark              time.Duration
	}{
		"far from the limit": {octets / 5, octets / 5 * 2, octets / 5 * 3, 20 * time.Millisecond},
		"near the limit":     {octets / 5 * 4, octets, octets, 20 * time.Millisecond},
		"a few packets":      {octets / 5, octets / 5, octets / 5, 20 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			paced := pacedAtMost(t, Limit{Rate: 8 * octets, Mark: c.mark, Drop: time.Second}, c.fair, c.most)
			if paced < c.least || paced > c.most {
				t.Errorf("paced at %d octet/s at most, want %d to %d", paced, c.least, c.most)
			}
		})
	}
}

// pacedAtMost is the highest rate at which a sender of calls is paced while its scope's fair rate stands still, in 200 calls or up to
// the expected one.
func pacedAtMost(t *testing.T, l Limit, fair, expected uint64) (most uint64) {
	t.Helper()
	client, server, address := path(t)
	p, outer, inner := innerScope(t)
	needStorage(t, p)
	// No window ends within an hour.
	state := limitLimitState{FairRate: fair, WindowStartNs: uint64(clock(t)), IntervalNs: uint64(time.Hour)}
	if err := errors.Join(p.Set(0, Egress, l), p.objects.LimitStates.Put(uint32(Egress), &state), p.Attach(outer.Path)); err != nil {
		t.Fatal(err)
	}
	process, answers := talker(t, inner, client, echo(t, server, address))
	for range 200 {
		var rate uint64
		if !answers.Scan() {
			t.Fatal("the talker has ended")
		}
		if _, err := fmt.Sscan(answers.Text(), &rate); err != nil {
			t.Fatal(err)
		}
		// Before the first call it has no pace.
		if rate < 1<<32-1 {
			most = max(most, rate)
		}
		if most > fair && most >= expected {
			break
		}
		if _, err := fmt.Fprintln(process.In); err != nil {
			t.Fatal(err)
		}
	}
	return most
}
