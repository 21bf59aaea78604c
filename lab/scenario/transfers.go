// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/internal/infile"
	"weir/internal/units"
	"weir/internal/yamlfile"
	"weir/lab/link"
	"weir/lab/traffic"
	"weir/lab/traffic/workload"
)

const (
	largestTransfer = 1 << 50 // bytes
	ethernetHeader  = 14      // bytes
)

// sizesFile is the distribution of transfer sizes.
type sizesFile struct {
	yamlfile.Fields `yaml:"-"`
	Distribution    string          `yaml:"distribution" doc:"Distribution that is built in: web-search or data-mining."`
	File            string          `yaml:"file" doc:"File with a point of the distribution per line: bytes, and the share of transfers of at most that size."`
	Bytes           *units.ByteSize `yaml:"bytes" doc:"One size for all."`
}

// UnmarshalText reads the short forms: a size, or the name of a distribution.
func (s *sizesFile) UnmarshalText(text []byte) error {
	word := strings.TrimSpace(string(text))
	if word != "" && word[0] >= '0' && word[0] <= '9' {
		s.Bytes = new(units.ByteSize)
		return s.Bytes.UnmarshalText(text)
	}
	s.Distribution = word
	return nil
}

func (*sizesFile) ShortForm() string {
	return `"web-search", "data-mining" or one size, such as "64KiB"`
}

// perSecond is a frequency.
type perSecond float64

func (p *perSecond) UnmarshalText(text []byte) error {
	number, _ := cutUnit(strings.TrimSpace(string(text)), "/s", "per second")
	if number == "" {
		number = strings.TrimSpace(string(text))
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n >= 0) || n > 1e9 {
		return fmt.Errorf("%q is no number per second, such as \"200/s\"", text)
	}
	*p = perSecond(n)
	return nil
}

func (perSecond) ShortForm() string { return `a number per second, such as "200/s"` }

// sizesInFile describes a valid file of a distribution.
var sizesInFile = infile.Kind{What: "distribution of sizes", Most: 1 << 20, Name: trySizes, Larger: "leave points out"}

const trySizes = `name a file with "bytes share" a line, or write ` + workload.WebSearch + ", " + workload.DataMining + " or a size"

// load reads the load of a flow of transfers.
func (b *builder) load(f flowFile, path string, mtu int, out *traffic.Flow) *workload.Load {
	sizes, known := b.sizes(f, path)
	load := &workload.Load{Sizes: sizes, Drain: time.Duration(f.Drain), Path: b.pathOf(out, mtu)}
	if f.Most != nil {
		if *f.Most < 1 || *f.Most > largestTransfer {
			b.complain(f.At("most"), "write a size such as 5MB", "%s.most: %d bytes is outside 1 to %d", path, *f.Most, uint64(largestTransfer))
		}
		load.Sizes.Most = *f.Most
	}
	if out.Duration > 0 && load.Drain >= out.Duration {
		b.complain(f.At("drain"), "make it shorter", "%s.drain: no transfer begins in the last %s, and the flow has %s", path, load.Drain, out.Duration)
		return load
	}
	if known {
		b.arrivals(f, path, load)
	}
	return load
}

// sizes reads the distribution; known is false if there is none.
func (b *builder) sizes(f flowFile, path string) (sizes workload.Sizes, known bool) {
	path += ".sizes"
	if f.Sizes == nil {
		b.complain(f.Self, `add "sizes: web-search"`, "%s: a flow of kind \"transfers\" needs sizes", strings.TrimSuffix(path, ".sizes"))
		return sizes, false
	}
	s := f.Sizes
	given := 0
	for _, is := range []bool{s.Distribution != "", s.File != "", s.Bytes != nil} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		b.complain(f.At("sizes"), trySizes, "%s: %d distributions are given; a flow has one", path, given)
	case s.Bytes != nil && (*s.Bytes < 1 || *s.Bytes > largestTransfer):
		b.complain(f.At("sizes"), "write a size such as 64KiB", "%s: %d bytes is outside 1 to %d", path, *s.Bytes, uint64(largestTransfer))
	case s.Bytes != nil:
		return workload.Fixed(*s.Bytes), true
	case s.File != "":
		return b.sizesOf(f, path)
	default:
		return b.published(f, path)
	}
	return sizes, false
}

func (b *builder) published(f flowFile, path string) (workload.Sizes, bool) {
	var names []string
	for _, s := range workload.Published() {
		if s.Name == f.Sizes.Distribution {
			return s, true
		}
		names = append(names, s.Name)
	}
	b.complain(f.At("sizes"), trySizes, "%s: there is no distribution %q%s", path, f.Sizes.Distribution, listOrHint(f.Sizes.Distribution, names))
	return workload.Sizes{}, false
}

func (b *builder) sizesOf(f flowFile, path string) (sizes workload.Sizes, known bool) {
	text, err := sizesInFile.Read(f.Sizes.File)
	if err != nil {
		b.complain(f.At("sizes"), trySizes, "%s: %v", path, err)
		return sizes, false
	}
	if sizes, err = workload.Read(f.Sizes.File, string(text)); err != nil {
		b.complain(f.At("sizes"), `write "bytes share" a line; both rise, and the last share is 1`, "%s: %s: %v", path, f.Sizes.File, err)
	}
	return sizes, err == nil
}

// arrivals reads the arrival rate of transfers.
func (b *builder) arrivals(f flowFile, path string, load *workload.Load) {
	switch {
	case f.Arrivals == nil && f.Load == nil:
		b.complain(f.Self, `add "load: 60%" or "arrivals: 200/s"`, "%s: nothing says how often a transfer begins", path)
	case f.Arrivals != nil && f.Load != nil:
		b.complain(f.At("load"), "keep one of them", "%s: arrivals and load are two rates of one flow", path)
	case f.Arrivals != nil && *f.Arrivals == 0:
		b.complain(f.At("arrivals"), `write a number such as "200/s"`, "%s.arrivals: 0: no transfer begins", path)
	case f.Arrivals != nil:
		load.PerSecond = float64(*f.Arrivals)
	case *f.Load == 0:
		b.complain(f.At("load"), `write a part such as "60%"`, "%s.load: 0: no transfer begins", path)
	case load.Path.Rate == 0:
		b.complain(f.At("load"), `give a link of the path a rate, or write "arrivals: 200/s"`, "%s.load: no link from %q to %q has a rate that this could be a part of", path, f.From, f.To)
	default:
		load.PerSecond = load.Path.PerSecond(f.Load.value(0), load.Sizes.Mean())
	}
}

// pathOf is the path of a flow's transfers.
func (b *builder) pathOf(f *traffic.Flow, mtu int) workload.Path {
	headers := f.Headers()
	p := workload.Path{Payload: mtu - headers, Headers: headers + ethernetHeader + link.FrameOverhead}
	from, to := b.network.index[f.From], b.network.index[f.To]
	there, found := b.network.path(from, to)
	back, _ := b.network.path(to, from)
	if !found {
		return p
	}
	p.There, p.Back = b.network.delay(there), b.network.delay(back)
	for _, h := range there {
		if rate := b.network.direction(h).Rate; rate > 0 && (p.Rate == 0 || rate < p.Rate) {
			p.Rate = rate
		}
	}
	return p
}

// TransferSubjects returns the subjects of a flow of transfers: the flow, and its transfers of each
// class of size.
func TransferSubjects(flow string) []string {
	all := []string{flow}
	for _, c := range workload.Classes() {
		all = append(all, ClassSubject(flow, c))
	}
	return all
}

// ClassSubject is the subject of the figures of one class of size: "web small".
func ClassSubject(flow string, c workload.Class) string { return flow + " " + c.Name }

// classSubjects rejects a class subject that is also another flow's name.
func (b *builder) classSubjects(taken map[string]bool, f yamlfile.Fields, path string, flow traffic.Flow) {
	if flow.Kind != traffic.Transfers {
		return
	}
	for _, name := range TransferSubjects(flow.Name)[1:] {
		if taken[name] {
			b.complain(f.At("name"), "give each flow and stream a name of its own", "%s: the name %q of its transfers by size is taken", path, name)
		}
		taken[name] = true
	}
}

// fewTransfers reports a host that begins more transfers than it has ports.
func (b *builder) fewTransfers() {
	expected := map[string]float64{}
	for i, phase := range b.cell.Phases {
		for j, f := range phase.Flows {
			if f.Load == nil {
				continue
			}
			expected[f.From] += f.Load.Expected(f.Duration)
			if n := expected[f.From]; n > traffic.MaxTransfers {
				b.complain(b.file.Phases[i].Flows[j].Self, "lower the load, make the phase shorter, or begin them at several hosts",
					"phases[%d].flows[%d]: %q begins about %.0f transfers up to here, and has ports for %d", i, j, f.From, n, traffic.MaxTransfers)
			}
		}
	}
}
