// SPDX-License-Identifier: Apache-2.0

package run

import (
	"time"

	"weir/lab/scenario"
)

// Stage is what a run is doing.
type Stage string

const (
	Waiting     Stage = "waits for its turn" // another lab measures
	Building    Stage = "building"
	Calibrating Stage = "calibrating"
	Loading     Stage = "measuring"
	Valid       Stage = "valid"   // the attempt ended well
	Invalid     Stage = "invalid" // the attempt ended badly; Reason says why
	Trying      Stage = "trying"  // a value of the fallback parameter; Reason names it
	Chosen      Stage = "chosen"  // that value is used
	Measuring   Stage = "finding out what this machine carries"
)

// Event tells what an execution is doing.
type Event struct {
	Stage      Stage
	Cell       *scenario.Cell // nil for Waiting and Chosen
	Repetition int
	Attempt    int
	Phase      string        // with Loading
	Done       int           // repetitions of cells that are over
	Total      int           // of all
	Left       time.Duration // until the end, judging by the runs so far; 0 while unknown
	Reason     string
}

// progress turns what happens into events with the time that is left.
type progress struct {
	report   func(Event)
	total    int
	done     int
	overhead time.Duration // sum over runs so far of what each took beyond its traffic
	runs     int
	guess    time.Duration // of a run's overhead, as long as none has been seen
	left     time.Duration // traffic that is still to come
}

// begin starts counting anew.
func (p *progress) begin(cells []scenario.Cell, jobs []job) {
	p.total, p.done, p.left, p.guess = len(jobs), 0, 0, 0
	for _, j := range jobs {
		p.left += trafficTime(&cells[j.cell])
		p.guess = max(p.guess, guess(&cells[j.cell]))
	}
}

// guess is how long a run takes beyond its traffic as long as none has been seen: building, taking
// down the configuration, calibrating and removing.
func guess(cell *scenario.Cell) time.Duration {
	emulated := len(Cables(cell))
	calibrating := time.Duration(emulated) * 50 * time.Millisecond
	for i, l := range cell.Links {
		if !l.Plain && i < 4 {
			calibrating += 500*time.Millisecond + 6*(l.Forward.Delay+l.Reverse.Delay)
		}
	}
	return 500*time.Millisecond + time.Duration(len(cell.Nodes))*40*time.Millisecond + calibrating
}

func (p *progress) tell(e Event) {
	if p.report == nil {
		return
	}
	e.Done, e.Total = p.done, p.total
	overhead := p.guess
	if p.runs > 0 {
		overhead = p.overhead / time.Duration(p.runs)
	}
	e.Left = p.left + time.Duration(p.total-p.done)*overhead
	p.report(e)
}

// attempted accounts for an attempt.
func (p *progress) attempted(result *Result) {
	p.runs++
	p.overhead += max(0, result.Took-trafficTime(result.Cell))
}

// finished accounts for a job that is over, well or not.
func (p *progress) finished(cell *scenario.Cell) {
	p.done++
	p.left -= trafficTime(cell)
}
