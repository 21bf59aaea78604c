// SPDX-License-Identifier: Apache-2.0

package links

import (
	"slices"
	"strings"
	"time"
	"weir/internal/dscp"

	"weir/core/policy"
	"weir/internal/units"
	"weir/internal/yamlfile"
)

const moduleName = "links"

// sectionKeys is the module's section of a policy file.
type sectionKeys struct {
	Links yamlfile.Map[*linkKeys] `yaml:"links" doc:"Links with one egress queue per class, by device name."`
}

type linkKeys struct {
	yamlfile.Fields `yaml:"-"`
	Rate            units.BitRate            `yaml:"rate,required" doc:"Rate of the link on the wire, or slightly less. The queue must form here, so the rate must not exceed the lowest rate of the path. A rate above the speed of the device is rejected."`
	Overhead        *uint16                  `yaml:"overhead" doc:"Bytes per frame on the wire in addition to the frame that the host sends. Default 24: Ethernet's preamble, frame check sequence and interframe gap."`
	Preset          string                   `yaml:"preset" enum:"weir,geant-1,geant-2" doc:"Initial set of classes: Weir's own ('weir', the default), or those of table 1 ('geant-1') or table 2 ('geant-2') of GÉANT's experiments."`
	Shadow          bool                     `yaml:"shadow" doc:"Only count packets and losses per class, without any effect on traffic."`
	Classes         yamlfile.Map[*classKeys] `yaml:"classes" doc:"Changes to the classes of the preset, and additional classes, by name."`
}

type classKeys struct {
	yamlfile.Fields `yaml:"-"`
	DSCP            []yamlfile.Text    `yaml:"dscp" doc:"DSCPs of the class, by number or name. Packets with any other DSCP belong to best-effort."`
	Weight          *units.Probability `yaml:"weight" doc:"Guaranteed share of the rate."`
	Priority        *uint32            `yaml:"priority" doc:"Order of service, from 0 (first) to 7. Classes below their guaranteed share precede all others; the priority applies within each of the two groups. Round robin serves classes of equal priority."`
	Ceiling         *units.BitRate     `yaml:"ceiling" doc:"Maximum rate, including bandwidth that other classes leave. Default: the rate of the link."`
	Queue           *units.Duration    `yaml:"queue" doc:"Maximum length of the queue, expressed as sending time at the ceiling."`
	Leaf            Leaf               `yaml:"leaf" enum:"fifo,fq_codel,cake" doc:"Qdisc of the class. fq_codel is fair between flows; cake (triple-isolate) is fair between hosts and between flows; fifo is first in, first out. The default depends on 'ecn'."`
	ECN             *bool              `yaml:"ecn" doc:"If true, packets that wait long are marked, and the default of 'leaf' is fq_codel. If false, no packet is marked, and the default of 'leaf' is fifo. Without 'ecn' and 'leaf', the class uses fq_codel if the kernel has it; premium, network-control and all classes of the geant presets use fifo."`
}

// Limits of keys.
const (
	maxClasses  = 32
	maxPriority = 7
	minRate     = units.BitRate(64_000)
	minQueue    = 100 * time.Microsecond
	longest     = 10 * time.Second
)

const ethernetOverhead = 8 + 4 + 12

func grammar() policy.Grammar {
	return policy.Grammar{Module: moduleName, Section: sectionKeys{}, Read: read}
}

func read(d *policy.Draft) {
	section, _ := d.Section.(*sectionKeys)
	if section == nil {
		return
	}
	for _, link := range section.Links {
		if link.Value == nil || link.Value.Flawed() {
			continue
		}
		r := reader{d, link.Value, "links." + link.Key.Value}
		t := r.treatment(link.Key)
		if d.Sound() {
			d.Declare("link "+link.Key.Value, link.Value.Fields, t)
		}
	}
}

// reader reads one link.
type reader struct {
	draft *policy.Draft
	keys  *linkKeys
	name  string
}

func (r reader) treatment(dev yamlfile.Text) *Treatment {
	k := r.keys
	r.draft.Device(dev, moduleName)
	if dev.Value == "lo" {
		r.draft.ComplainAt(dev.Place, "name the device that packets leave the host by", "links.lo: loopback is no link: nothing waits there")
	}
	if k.Rate < minRate {
		r.draft.ComplainAt(k.At("rate"), "write the capacity of the link, as in rate: 1Gbit", "%s.rate: %s is below the minimum of %s", r.name, k.Rate, minRate)
	}
	t := &Treatment{Device: dev.Value, Rate: k.Rate, Overhead: ethernetOverhead, Preset: k.Preset, Shadow: k.Shadow}
	if k.Overhead != nil {
		t.Overhead = *k.Overhead
	}
	if t.Preset == "" {
		t.Preset = Own
	}
	t.Classes = preset(t.Preset)
	for _, c := range k.Classes {
		if c.Value == nil || c.Value.Flawed() {
			continue
		}
		r.class(t, c.Key, c.Value)
	}
	r.check(t)
	return t
}

// class changes a class of the preset, or adds one.
func (r reader) class(t *Treatment, name yamlfile.Text, k *classKeys) {
	path := r.name + ".classes." + name.Value
	i := slices.IndexFunc(t.Classes, func(c Class) bool { return c.Name == name.Value })
	if i < 0 {
		if len(k.DSCP) == 0 || k.Weight == nil {
			r.draft.ComplainAt(name.Place, "give it dscp: [AF41] and weight: 10%", "%s: a class that is not in the preset %s needs dscp and weight", path, t.Preset)
			return
		}
		if name.Value == "" || strings.ContainsAny(name.Value, " \t\n") {
			r.draft.ComplainAt(name.Place, "", "%s: the name of a class has no blanks", path)
		}
		be := slices.IndexFunc(t.Classes, func(c Class) bool { return c.Name == bestEffort })
		t.Classes = append(t.Classes, Class{Name: name.Value, Priority: t.Classes[be].Priority, Queue: t.Classes[be].Queue})
		i = len(t.Classes) - 1
	}
	c := &t.Classes[i]
	if k.Has("dscp") {
		c.DSCP = r.codePoints(path, k)
	}
	if k.Weight != nil {
		c.Weight = *k.Weight
	}
	if k.Priority != nil {
		if c.Priority = *k.Priority; c.Priority > maxPriority {
			r.draft.ComplainAt(k.At("priority"), "0 is served first", "%s.priority: %d is not from 0 to %d", path, c.Priority, maxPriority)
		}
	}
	r.queue(c, path, k)
	if k.Queue != nil {
		if c.Queue = *k.Queue; time.Duration(c.Queue) < minQueue || time.Duration(c.Queue) > longest {
			r.draft.ComplainAt(k.At("queue"), "write it as 20ms", "%s.queue: %s is not from %s to %s", path, c.Queue, minQueue, longest)
		}
	}
	if k.Ceiling != nil {
		c.Ceiling = *k.Ceiling
	}
	if own := share(t.Rate, c.Weight); c.Ceiling > t.Rate || k.Has("ceiling") && c.Ceiling < max(own, minRate) {
		way := "lower its weight, or raise the ceiling up to the link's rate"
		if c.Ceiling > t.Rate {
			way = "lower it to the link's rate, or leave it out"
		}
		r.draft.ComplainAt(k.At("ceiling"), way,
			"%s.ceiling: %s is not between its guaranteed rate, %s, and the link's rate, %s", path, c.Ceiling, max(own, minRate), t.Rate)
	}
}

// queue reads the qdisc of a class and whether it marks.
func (r reader) queue(c *Class, path string, k *classKeys) {
	if k.Leaf != "" {
		c.Leaf, c.ECN = k.Leaf, MayMark
	}
	if k.ECN != nil {
		c.ECN = map[bool]ECN{true: MustMark, false: NeverMark}[*k.ECN]
	}
	switch {
	case c.Leaf == Fifo && c.ECN == MustMark:
		r.draft.ComplainAt(k.At("ecn"), "leave ecn out, or write leaf: fq_codel", "%s.ecn: fifo marks nothing", path)
	case c.Leaf == Cake && c.ECN == NeverMark:
		r.draft.ComplainAt(k.At("ecn"), "leave ecn out, or write leaf: fq_codel", "%s.ecn: cake marks all ECN-capable packets", path)
	case c.Leaf == Fifo:
		c.ECN = NeverMark
	}
}

func (r reader) codePoints(path string, k *classKeys) (list []dscp.DSCP) {
	for _, text := range k.DSCP {
		d, err := dscp.ParseDSCP(text.Value)
		if err != nil {
			r.draft.ComplainAt(text.Place, "", "%s.dscp: %v", path, err)
			continue
		}
		list = append(list, d)
	}
	return list
}

// check checks the classes together.
func (r reader) check(t *Treatment) {
	at := r.keys.At("classes")
	if len(t.Classes) > maxClasses {
		r.draft.ComplainAt(at, "", "%s: %d classes; the maximum is %d", r.name, len(t.Classes), maxClasses)
	}
	sum, owner := 0., map[dscp.DSCP]string{}
	for _, c := range t.Classes {
		sum += float64(c.Weight)
		for _, d := range c.DSCP {
			if other, taken := owner[d]; taken {
				r.draft.ComplainAt(at, "leave it out of one of them", "%s: DSCP %d is of %s and of %s", r.name, d, other, c.Name)
			}
			owner[d] = c.Name
		}
	}
	if sum > 1+1e-9 {
		r.draft.ComplainAt(at, "lower some: unassigned rate goes by priority", "%s: the sum of the weights is %s, above 100 %%", r.name, units.Probability(sum))
	}
	for _, d := range lowEffortDSCP {
		if owner[d] != lowEffort {
			r.draft.ComplainAt(at, "add it to lbe's dscp", "%s: DSCP %d (%s) is less than best effort, and has no queue of its own", r.name, d, d)
		}
	}
}

// share is a part of a rate.
func share(rate units.BitRate, weight units.Probability) units.BitRate {
	return units.BitRate(float64(rate) * float64(weight))
}
