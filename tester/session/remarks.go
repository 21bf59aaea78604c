// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"strings"
	"time"

	"weir/internal/fault"
)

// Shortfall is the share of the requested rate below which a run reports that the machine could not
// send it.
const Shortfall = 0.99

// remarks lists notes for interpreting the account.
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
		note("this machine sent %.0f frame/s instead of the requested %.0f: frames that were never sent are not lost frames", achieved, asked)
	}
	if late+skipped > 0 {
		note("%d frames left late and %d were left out because their time had passed", late, skipped)
	}
	if a.Refused > 0 {
		note("the sending devices or their veth peers did not accept %d frames: they count as sent and as lost", a.Refused)
	}
	if a.Dropped > 0 {
		note("the receiving devices dropped %d frames before the analyzer saw them: this loss is the tester's, not the path's", a.Dropped)
	}
	notes = append(notes, a.oddities()...)
	notes = append(notes, a.neighbourRemarks()...)
	notes = append(notes, a.clockRemarks(config.Clock)...)
	if unstamped(config) {
		note("streams without a stamp are sent and counted at the sender alone; at the receiver they are foreign frames")
	}
	return notes
}

// oddities lists events that no path causes, and kinds of loss.
func (a Account) oddities() (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	for _, s := range a.Streams {
		c := s.Received
		if c == nil {
			continue
		}
		if c.Restarts == 1 {
			note("the sender of %s restarted: loss counts the frames since then; %d distinct frames came before", s.Name, c.Earlier)
		}
		if c.Misnumbered > 0 {
			note("%d frames of %s carried sequence numbers that were not theirs: their own count as lost", c.Misnumbered, s.Name)
		}
		if c.OutOfWindow > 0 {
			note("%d frames of %s arrived more than %d numbers late: the analyzer cannot distinguish duplicates from first arrivals, which count as lost", c.OutOfWindow, s.Name, outOfWindow)
		}
		if c.HeaderErrors > 0 {
			note("%d frames of %s had a wrong IPv4 header checksum, which a router would drop: they count as lost", c.HeaderErrors, s.Name)
		}
		if len(notes) > maxNotes {
			return append(notes[:maxNotes], "and more of this kind")
		}
	}
	return notes
}

const (
	outOfWindow = 127 * 64 // analyzer.Window
	maxNotes    = 8        // notes of one kind
)

const tryUnheard = "is the destination MAC the next hop's, does the device under test forward, " +
	"and has a veth peer native XDP or GRO on ('ethtool -K DEVICE gro on')?"

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

// Unheard reports that frames were sent and none arrived.
func (s Stream) Unheard() bool {
	return s.Sent != nil && s.Received != nil && s.Sent.Frames > 0 && s.Received.Received == 0
}

// Slow reports that the sender fell short of the requested rate. It requires a minimum number of
// frames.
func (s Stream) Slow() bool {
	const enough = 100
	return s.Sent != nil && s.Asked > 0 && s.Sent.Frames+s.Sent.Skipped >= enough && s.Rate() < Shortfall*s.Asked
}

// short reports that too few frames were sent for the requested stream. If the stream ended at
// once, only skipped frames show that.
func (s Stream) short() bool {
	return s.Slow() && (s.Sent.Skipped > 0 || s.Sent.Last-s.Sent.First >= time.Second)
}

// Short returns the error of a machine that could not send the requested rate: figures at another
// rate are no answer.
func (a Account) Short() error {
	var asked, achieved float64
	for _, s := range a.Streams {
		if s.short() {
			asked, achieved = asked+s.Asked, achieved+s.Rate()
		}
	}
	if asked == 0 || a.Stopped {
		return nil
	}
	return fault.New(fault.Testbed, "ask for less, or give the generator more CPUs, another device or a larger --batch",
		"this machine sent %.0f frame/s instead of the requested %.0f: it cannot support the measurement", achieved, asked)
}

// few lists the first names.
func few(names []string) string {
	const maxNames = 4
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more streams", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}
