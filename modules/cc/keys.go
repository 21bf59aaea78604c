// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weir/core/match"
	"weir/core/policy"
	"weir/internal/nearest"
)

// scopeKeys holds the keys of a scope for congestion controls.
type scopeKeys struct {
	Congestion *string `yaml:"congestion" doc:"TCP congestion control of new connections: one of Weir's (dctcp, ledbat, scavenger) or one of the kernel's, such as cubic, reno or bbr."`
	Downloads  *string `yaml:"downloads" doc:"Receiver-side congestion control of new TCP connections, for any sender: rledbat (RFC 9840), or scavenger with a lower delay target."`
}

const (
	key          = "congestion"
	downloadsKey = "downloads"
)

// Treatment is the congestion control and the receiver-side control of new connections of a scope;
// "" for none.
type Treatment struct {
	Control   string `json:"control"` // as the file names it
	Downloads string `json:"downloads,omitempty"`
}

// Summary names them.
func (t *Treatment) Summary() string {
	var all []string
	if t.Control != "" {
		all = append(all, key+" "+t.Control)
	}
	if t.Downloads != "" {
		all = append(all, downloadsKey+" "+t.Downloads)
	}
	return strings.Join(all, ", ")
}

// treatmentOf returns the treatment of a scope, or nil.
func treatmentOf(s policy.Scope) *Treatment {
	t, _ := s.Treatments[moduleName].(*Treatment)
	return t
}

func grammar() policy.Grammar {
	return policy.Grammar{Module: moduleName, Scope: scopeKeys{}, Treats: []string{key, downloadsKey}, Read: read, Warn: warn}
}

// read makes treatments of a file's keys. A scope without a control of its own has that of the
// nearest scope above it.
func read(d *policy.Draft) {
	for i := range d.Scopes {
		check(d, &d.Scopes[i])
	}
	d.Inherit("a congestion control", match.MaxDepth, func(s *policy.DraftScope) policy.Treatment {
		if t := wanted(d, s); t != (Treatment{}) {
			return &t
		}
		return nil
	})
}

// wanted returns the treatment of a scope, each key from itself or the nearest ancestor.
func wanted(d *policy.Draft, s *policy.DraftScope) (t Treatment) {
	for {
		t.Control = cmp.Or(t.Control, own(s.Keys.(*scopeKeys).Congestion))
		t.Downloads = cmp.Or(t.Downloads, own(s.Keys.(*scopeKeys).Downloads))
		if s.Above < 0 {
			return t
		}
		s = &d.Scopes[s.Above]
	}
}

// own returns the value of a key; "" if missing.
func own(said *string) string {
	if said == nil {
		return ""
	}
	return *said
}

// controlNames matches valid names: at most 15 bytes.
var controlNames = regexp.MustCompile(`^[a-z0-9_-]{1,15}$`)

func check(d *policy.Draft, s *policy.DraftScope) {
	if said := s.Keys.(*scopeKeys).Downloads; said != nil {
		if _, known := receivingOf(*said); !known {
			d.Complain(s, downloadsKey, "%q does not hold downloads%s: give %s", *said, nearest.Hint(*said, Receivings()), strings.Join(Receivings(), " or "))
		}
	}
	said := s.Keys.(*scopeKeys).Congestion
	if said == nil {
		return
	}
	name := *said
	if !controlNames.MatchString(name) {
		d.Complain(s, key, "%q is no congestion control: give one of %s, or one of the kernel's by its name, as cubic", name, strings.Join(Algorithms(), ", "))
		return
	}
	if short, weirs := strings.CutPrefix(name, usualPrefix); weirs {
		if _, known := algorithmOf(short); known {
			d.Complain(s, key, "%s is the name that sockets know: write %s", name, short)
		}
	}
}

// kernels lists controls of Linux, so that they are not reported as mistyped. Other names are
// allowed.
var kernels = []string{"reno", "cubic", "bbr", "bbr2", "bbr3", "bic", "cdg", "highspeed", "htcp", "hybla", "illinois", "lp", "nv", "scalable", "vegas", "veno",
	"westwood", "yeah", "prague"}

// near is the control that was probably meant; "" for none.
func near(name string) string {
	if _, known := algorithmOf(name); known || slices.Contains(kernels, name) {
		return ""
	}
	return nearest.Of(name, append(Algorithms(), kernels...))
}

// warn reports controls that are probably mistyped. They may be kernel controls after all.
func warn(p *policy.Policy) (warnings []string) {
	told := map[string]bool{}
	for _, s := range p.Scopes {
		t := treatmentOf(s)
		if t == nil || t.Control == "" || told[t.Control] {
			continue
		}
		told[t.Control] = true
		if meant := near(t.Control); meant != "" {
			warnings = append(warnings, fmt.Sprintf("%s: scope %s: the congestion control %q does not come with Weir, and is looked for in the kernel: write %s if that is meant",
				p.At(s.Name, key), s.Name, t.Control, meant))
		}
	}
	return warnings
}
