// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"time"

	"weir/internal/units"
	"weir/internal/yamlfile"
)

// Procedure is a standard benchmark of the network between two hosts, which chooses its own frames
// and rates. Plain links and routers join the hosts; the first router is the device under test.
type Procedure struct {
	Name       string // subject of its figures
	Kind       string // RFC2544
	From, To   string
	Family     int           // 4 or 6
	FrameSize  int           // bytes, FCS included
	Tests      []string      // of ProcedureTests
	Trial      time.Duration // duration of the final trials
	Search     time.Duration // sending time of the search's trials
	Resolution float64       // share of the rate at which the search ends
	Acceptable float64       // maximum share of lost frames in a trial that passes
	Repeat     int           // repetitions of a trial with losses; its rate fails if all of them lose frames
}

// RFC2544 is the one kind of procedure.
const RFC2544 = "rfc2544"

// ProcedureTests are the tests of RFC 2544 that a phase can run; each may use the throughput found
// first.
func ProcedureTests() []string {
	return []string{"throughput", "latency", "frame-loss", "back-to-back"}
}

type procedureFile struct {
	yamlfile.Fields `yaml:"-"`
	Kind            string          `yaml:"kind,required" enum:"rfc2544" doc:"rfc2544: benchmarks by RFC 2544 and RFC 9004."`
	Name            string          `yaml:"name" doc:"Subject of its figures; its kind if left out."`
	From            string          `yaml:"from,required" doc:"Host that sends."`
	To              string          `yaml:"to,required" doc:"Host that receives. The first router between the two is the device under test, where the links at it are plain."`
	Family          *int            `yaml:"family" doc:"4 or 6: the version of IP; 4 if left out."`
	FrameSize       *int            `yaml:"frame_size" doc:"Octets of the Ethernet frame, FCS included; 128 if left out."`
	Tests           []string        `yaml:"tests" doc:"throughput, latency, frame-loss, back-to-back; throughput alone if left out, and always first."`
	Trial           *units.Duration `yaml:"trial" doc:"Duration of the final trials; 2s if left out (RFC 2544 section 24: 60s)."`
	Search          *units.Duration `yaml:"search" doc:"Length of the trials of the search; that of trial if left out."`
	Resolution      *share          `yaml:"resolution" doc:"Part of the rate at which the search for the throughput ends; 1% if left out."`
	AcceptableLoss  *share          `yaml:"acceptable_loss" doc:"Part of the frames that a trial may lose and still pass; 0 if left out, as in RFC 2544."`
	Repeat          *int            `yaml:"repeat" doc:"Repetitions of a trial that lost frames: its rate fails if all of them lose frames too; 2 if left out."`
}

const (
	maxRepeat     = 50
	minTrial      = 50 * time.Millisecond
	defaultTrial  = 2 * time.Second
	defaultRepeat = 2
)

// procedure reads the procedure of a phase, which excludes flows and streams.
func (b *builder) procedure(f *procedureFile, path string, phase Phase, other int) *Procedure {
	if other > 0 {
		b.complain(f.Self, "give it a phase of its own", "%s: the phase has flows or streams too, which would disturb it", path)
	}
	out := &Procedure{Name: f.Name, Kind: f.Kind, From: f.From, To: f.To, Tests: f.Tests, Trial: defaultTrial,
		Resolution: f.Resolution.value(0.01), Acceptable: f.AcceptableLoss.value(0), Repeat: defaultRepeat}
	if out.Name == "" {
		out.Name = f.Kind
	}
	out.Family, out.FrameSize = b.frames(f.Fields, path, b.way(f.Fields, path, f.From, f.To), f.Family, f.FrameSize)
	if f.Trial != nil {
		out.Trial = time.Duration(*f.Trial)
	}
	out.Search = out.Trial
	if f.Search != nil {
		out.Search = time.Duration(*f.Search)
	}
	for key, length := range map[string]time.Duration{"trial": out.Trial, "search": out.Search} {
		if length < minTrial || length > phase.Duration {
			b.complain(f.At(key), "", "%s.%s: %s is outside %s to the phase's %s", path, key, length, minTrial, phase.Duration)
		}
	}
	if out.Resolution < 0.001 || out.Resolution > 0.5 {
		b.complain(f.At("resolution"), "", "%s.resolution: %g is outside 0.1%% to 50%%", path, out.Resolution)
	}
	if f.Repeat != nil {
		if out.Repeat = *f.Repeat; out.Repeat < 0 || out.Repeat > maxRepeat {
			b.complain(f.At("repeat"), fmt.Sprintf("write a number from 0 to %d", maxRepeat), "%s.repeat: %d is outside 0 to %d", path, out.Repeat, maxRepeat)
		}
	}
	b.tests(f, path, out)
	return out
}

// tests checks the names of the tests. Throughput comes first even if it is not named, because the
// other tests need it.
func (b *builder) tests(f *procedureFile, path string, out *Procedure) {
	for i, test := range f.Tests {
		if !slices.Contains(ProcedureTests(), test) {
			b.complain(f.At("tests"), "", "%s.tests[%d]: unknown test %q%s", path, i, test, listOrHint(test, ProcedureTests()))
		}
	}
	out.Tests = slices.DeleteFunc(ProcedureTests(), func(test string) bool {
		return test != "throughput" && !slices.Contains(f.Tests, test)
	})
}

// frames reads the IP version and the size of the tester's frames, which must fit the path's MTU.
func (b *builder) frames(f yamlfile.Fields, path string, mtu int, givenFamily, givenSize *int) (family, size int) {
	family, size = b.family(f, path, givenFamily), 128
	if givenSize != nil {
		size = *givenSize
	}
	least, most := minFrame4, mtu+etherHeader+4
	if family == 6 {
		least = minFrame6
	}
	switch {
	case family != 4 && family != 6: // already reported
	case size < least || size > most:
		b.complain(f.At("frame_size"), tryRange(least, most), "%s.frame_size: %d bytes is outside %d to %d, the range of IPv%d on this path", path, size, least, most, family)
	}
	return family, size
}
