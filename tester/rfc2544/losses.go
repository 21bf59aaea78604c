package rfc2544

import "fmt"

// Losses says where frames were lost.
type Losses struct {
	Frames  uint64 // in all
	Refused uint64 // they found the device's receive ring full
	Dropped uint64 // the device had forwarded them and its sending device did not take them
	Missed  uint64 // the tester's receiving device dropped them
}

func (l *Losses) add(o Outcome) {
	l.Frames += o.Lost()
	l.Refused += min(o.Refused, o.Lost())
	l.Missed += o.Dropped
	if o.Device != nil {
		l.Dropped += o.Device.Dropped
	}
}

// String is for a report: "99.8 % of the frames lost found the device's receive ring full".
func (l Losses) String() string {
	if l.Frames == 0 {
		return "no frame was lost"
	}
	share := func(n uint64) float64 { return 100 * float64(min(n, l.Frames)) / float64(l.Frames) }
	text := fmt.Sprintf("%.1f %% of the lost frames found its receive ring full", share(l.Refused))
	if l.Dropped > 0 {
		text += fmt.Sprintf(", %.1f %% found its sending device full", share(l.Dropped))
	}
	if rest := l.Frames - min(l.Refused+l.Dropped+l.Missed, l.Frames); rest > 0 {
		text += fmt.Sprintf(", %.1f %% were lost elsewhere", share(rest))
	}
	return text
}

// sum takes over what the trials of a result say beside it.
func (t *ThroughputResult) sum(attempts []Attempt) {
	for _, a := range attempts {
		t.Trials++
		if !a.Valid {
			t.Rejected++
			continue
		}
		t.Losses.add(a.Outcome)
		t.Offers = max(t.Offers, a.Outcome.slowest(func(f Flow) float64 { return f.Offered }))
	}
}
