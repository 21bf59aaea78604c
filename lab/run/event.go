// SPDX-License-Identifier: Apache-2.0

package run

import (
	"time"

	"weir/lab/scenario"
)

// Stage is the stage of a run.
type Stage string

const (
	Waiting     Stage = "waits for its turn" // another lab measures
	Building    Stage = "building"
	Calibrating Stage = "calibrating"
	Loading     Stage = "measuring"
	Valid       Stage = "valid"   // the attempt ended well
	Invalid     Stage = "invalid" // the attempt was rejected; Reason has the cause
	Trying      Stage = "trying"  // a value of the fallback parameter; Reason names it
	Chosen      Stage = "chosen"  // that value is used
	Measuring   Stage = "measuring the machine's capacity"
)

// Event reports the progress of an execution.
type Event struct {
	Stage      Stage
	Cell       *scenario.Cell // nil for Waiting and Chosen
	Repetition int
	Attempt    int
	Phase      string        // with Loading
	Done       int           // completed repetitions of cells
	Total      int           // of all
	Left       time.Duration // until the end, estimated from the runs so far; 0 while unknown
	Reason     string
}

// progress creates events with the remaining time.
type progress struct {
	report   func(Event)
	total    int
	done     int
	overhead time.Duration // sum over runs so far of the time beyond their traffic
	runs     int
	guess    time.Duration // of a run's overhead, until one was measured
	left     time.Duration // remaining traffic time
}

// begin starts counting anew.
func (p *progress) begin(cells []scenario.Cell, jobs []job) {
	p.total, p.done, p.left, p.guess = len(jobs), 0, 0, 0
	for _, j := range jobs {
		p.left += trafficTime(&cells[j.cell])
		p.guess = max(p.guess, guess(&cells[j.cell]))
	}
}

// guess estimates the overhead of a run: its time for building, recording the configuration,
// calibrating and removing. It is used until a run was measured.
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

// finished accounts for a job that is over, valid or not.
func (p *progress) finished(cell *scenario.Cell) {
	p.done++
	p.left -= trafficTime(cell)
}
