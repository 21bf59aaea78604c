// SPDX-License-Identifier: Apache-2.0

package links

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/core/policy"
	"weir/core/selector"
)

func parse(text string) (*policy.Policy, error) {
	language, err := policy.NewLanguage(selector.Language(), []policy.Grammar{grammar()}, nil)
	if err != nil {
		return nil, err
	}
	return language.Parse("policy.yaml", []byte("version: 1\nscopes: {}\nlinks:\n"+text))
}

func only(t *testing.T, text string) *Treatment {
	t.Helper()
	p, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Host) != 1 || p.Host[0].Name != "link eth0" {
		t.Fatalf("declared: %v", p.Host)
	}
	return p.Host[0].Treatment.(*Treatment)
}

// The tables of the paper, as it prints them.
func TestPresetsAreThePapersTables(t *testing.T) {
	for preset, want := range map[string]string{
		"geant-1": "network-control 4 % prio 0 [48 56], premium 90 % prio 0 [46], best-effort 5 % prio 0 [], lbe 1 % prio 0 [1 8]",
		"geant-2": "network-control 5 % prio 0 [48 56], premium 90 % prio 0 [46], best-effort 5 % prio 0 [], lbe 0 % prio 1 [1 8]",
		"weir":    "network-control 5 % prio 0 [48 56], premium 30 % prio 1 [46], best-effort 64 % prio 2 [], lbe 1 % prio 7 [1 8]",
	} {
		var got []string
		for _, c := range only(t, "  eth0: {rate: 1Gbit, preset: "+preset+"}\n").Classes {
			numbers := fmt.Sprint(c.DSCP)
			numbers = strings.NewReplacer("LE", "1", "CS1", "8", "EF", "46", "CS6", "48", "CS7", "56").Replace(numbers)
			got = append(got, fmt.Sprintf("%s %s prio %d %s", c.Name, c.Weight, c.Priority, numbers))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s:\n%s, want\n%s", preset, text, want)
		}
	}
}

func TestClassesAreChangedAndAdded(t *testing.T) {
	got := only(t, "  eth0:\n    rate: 100Mbit\n    overhead: 0\n    classes:\n      best-effort: {weight: 50%, ceiling: 80Mbit, queue: 5ms, ecn: true}\n"+
		"      video: {dscp: [AF41, 36], weight: 10%, priority: 1}\n")
	be, video := got.Classes[2], got.Classes[4]
	if be.Weight != .5 || be.Ceiling != 80_000_000 || time.Duration(be.Queue) != 5*time.Millisecond || be.ECN != MustMark || got.Overhead != 0 {
		t.Errorf("best effort is %+v, overhead %d", be, got.Overhead)
	}
	if fmt.Sprint(video.DSCP) != "[AF41 AF42]" || video.Priority != 1 || video.Weight != .1 {
		t.Errorf("video is %+v", video)
	}
	if presets[Own][2].Weight != .64 {
		t.Error("the preset itself was changed")
	}
	handles, _ := got.handles()
	if handles[34] != uint32(handleOf(4)) || handles[1] != handles[8] || handles[1] == 0 || handles[0] != 0 || handles[46] == handles[1] {
		t.Errorf("handles by DSCP: %x", handles)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"  eth0: {preset: weir}\n":                                                       "rate",
		"  eth0: {rate: 1Gbit, preset: geant-3}\n":                                       "geant-3",
		"  eth0: {rate: 1kbit}\n":                                                        "links.eth0.rate: 1 kbit/s is below the minimum of 64 kbit/s",
		"  lo: {rate: 1Gbit}\n":                                                          "loopback is no link",
		"  a/b: {rate: 1Gbit}\n":                                                         "is not a device name",
		"  eth0: {rate: 1Gbit, classes: {best-effort: {weight: 90%}}}\n":                 "the sum of the weights is 126 %",
		"  eth0: {rate: 1Gbit, classes: {lbe: {dscp: [1]}}}\n":                           "DSCP 8 (CS1) is less than best effort, and has no queue of its own",
		"  eth0: {rate: 1Gbit, classes: {best-effort: {dscp: [1]}, lbe: {dscp: [8]}}}\n": "DSCP 1 (LE)",
		"  eth0: {rate: 1Gbit, classes: {best-effort: {dscp: [EF]}}}\n":                  "DSCP 46 is of premium and of best-effort",
		"  eth0: {rate: 1Gbit, classes: {video: {weight: 1%}}}\n":                        "needs dscp and weight",
		"  eth0: {rate: 1Gbit, classes: {premium: {dscp: [EG]}}}\n":                      `links.eth0.classes.premium.dscp: "EG" is no class`,
		"  eth0: {rate: 1Gbit, classes: {premium: {priority: 8}}}\n":                     "8 is not from 0 to 7",
		"  eth0: {rate: 1Gbit, classes: {premium: {queue: 1us}}}\n":                      "links.eth0.classes.premium.queue",
		"  eth0: {rate: 1Gbit, classes: {premium: {ceiling: 2Gbit}}}\n":                  "links.eth0.classes.premium.ceiling: 2 Gbit/s is not between",
		"  eth0: {rate: 1Gbit, classes: {premium: {ceiling: 100Mbit}}}\n":                "its guaranteed rate, 300 Mbit/s",
		"  eth0: {rate: 1Gbit, classes: {premium: {prioriti: 8}}}\n":                     "priority",
		"  eth0: {rate: 1Gbit, classes: {premium: {leaf: cakes}}}\n":                     `"cakes" is not one of fifo, fq_codel, cake`,
		"  eth0: {rate: 1Gbit, classes: {premium: {leaf: cake, ecn: false}}}\n":          "links.eth0.classes.premium.ecn: cake marks",
		"  eth0: {rate: 1Gbit, classes: {premium: {leaf: fifo, ecn: true}}}\n":           "links.eth0.classes.premium.ecn: fifo marks nothing",
		"  eth0: {rate: 1Gbit}\n  eth0: {rate: 1Gbit}\n":                                 "eth0",
		"  eth0:\n": "policy.yaml:4",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "policy.yaml:") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
