package session

import (
	"fmt"
	"strings"
	"time"

	"weir/record/hist"
)

// Shortfall is the share of the asked rate below which a run says that the machine could not send it.
const Shortfall = 0.99

// remarks are what a reader must know to judge the account.
func (a Account) remarks(config Config) []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	var silent []string
	var late, skipped uint64
	var asked, achieved float64 // of the streams that fell short
	for _, s := range a.Streams {
		if s.Unheard() {
			silent = append(silent, s.Name)
		}
		if s.Sent == nil {
			continue
		}
		late += s.Sent.Late
		skipped += s.Sent.Skipped
		if s.Slow() {
			asked, achieved = asked+s.Asked, achieved+s.Rate()
		}
	}
	if len(silent) > 0 {
		note("no frame of %s arrived: %s", few(silent), tryUnheard)
	}
	if asked > 0 && !a.Stopped {
		note("this machine sent %.0f frame/s where %.0f were asked for: frames that were never sent are not lost frames", achieved, asked)
	}
	if late+skipped > 0 {
		note("%d frames left late and %d were left out because their time had passed", late, skipped)
	}
	if a.Refused > 0 {
		note("the sending devices or their veth peers had no room for %d frames: they count as sent and as lost", a.Refused)
	}
	if a.Dropped > 0 {
		note("the receiving devices dropped %d frames before the analyzer saw them: this loss is the tester's, not the path's", a.Dropped)
	}
	notes = append(notes, a.clockRemarks()...)
	if unstamped(config) {
		note("streams without a stamp are sent and counted at the sender alone; at the receiver they are foreign frames")
	}
	return notes
}

const tryUnheard = "is the destination MAC the next hop's, does the device under test forward, " +
	"and has a veth peer native XDP or GRO on ('ethtool -K DEVICE gro on')?"

// clockRemarks explain what the delays mean.
func (a Account) clockRemarks() []string {
	var notes []string
	negative := uint64(0)
	for _, s := range a.Streams {
		if s.Received != nil {
			negative += s.Received.NegativeDelays
		}
	}
	if a.Clock == Relative && hasReceiver(a.Streams) {
		notes = append(notes, "the two machines' clocks are not known to be synchronised: delays are relative to the smallest one, not one-way delays")
	}
	if a.Clock == Relative {
		notes = append(notes, coarse(a.Streams)...)
	}
	if negative > 0 {
		notes = append(notes, fmt.Sprintf("%d frames arrived before they were sent by the two clocks, which are not synchronised", negative))
	}
	return notes
}

func hasReceiver(streams []Stream) bool {
	for _, s := range streams {
		if s.Received != nil {
			return true
		}
	}
	return false
}

func unstamped(config Config) bool {
	for _, d := range config.Directions {
		for _, s := range d.Schedule.Streams {
			if !s.Stamped {
				return true
			}
		}
	}
	return false
}

// Unheard says that frames were sent and not one arrived.
func (s Stream) Unheard() bool {
	return s.Sent != nil && s.Received != nil && s.Sent.Frames > 0 && s.Received.Received == 0
}

// Slow says that the sender fell short of the asked rate. A handful of frames says nothing about a rate.
func (s Stream) Slow() bool {
	const enough = 100
	return s.Sent != nil && s.Asked > 0 && s.Sent.Frames+s.Sent.Skipped >= enough && s.Rate() < Shortfall*s.Asked
}

// few names some of many.
func few(names []string) string {
	const most = 4
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more streams", strings.Join(names[:most], ", "), len(names)-most)
}

// coarse says how well the percentiles of relative delays are known, where the clocks differ by more than the delays vary: a
// histogram's bucket is 1/32 of its value.
func coarse(streams []Stream) []string {
	least, spread := uint64(0), uint64(0)
	for _, s := range streams {
		if s.Received != nil && s.Received.Delay.Count() > 0 {
			least = max(least, s.Received.DelayMin)
			spread = max(spread, s.Received.DelayMax-s.Received.DelayMin)
		}
	}
	const buckets = 1 << hist.SubBits
	if least/buckets <= spread/10 {
		return nil
	}
	return []string{fmt.Sprintf("the two clocks differ by about %s, so percentiles of the delay are known to ±%s only; mean, maximum and variation are exact",
		time.Duration(least).Round(time.Microsecond), time.Duration(least/buckets).Round(time.Microsecond))}
}
