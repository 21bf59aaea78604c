// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"weir/core/policy"
	"weir/internal/fault"
	"weir/internal/nearest"
)

// Modes of a limit.
const (
	Shape  = "shape"
	Police = "police"
)

// Config is the configuration of the plugin, with the limits of one attachment.
type Config struct {
	Network string
	Mode    string
	// Ingress and Egress are the container's: the traffic that it receives and sends.
	Ingress, Egress Rate
	// Valid lists the attachments to keep at GC.
	Valid []Valid
}

// Rate is the limit of one direction.
type Rate struct {
	Key   string        // place in the configuration
	Bits  uint64        // bit/s; 0 is unlimited
	Burst time.Duration // traffic that may pass at line rate, as time at the limit; 0 is Weir's default
}

// Valid identifies an attachment that GC keeps.
type Valid struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifname"`
}

// Limited reports whether a direction has a limit.
func (c Config) Limited() bool { return c.Ingress.Bits > 0 || c.Egress.Bits > 0 }

const tryConfig = "correct the configuration list of the network: docs/guides/containers.md describes its keys"

// Keys of the configuration: of every plugin, of weir, and of the limits.
var (
	commonKeys = []string{"cniVersion", "name", "type", "args", "capabilities", "dns", "ipMasq", "ipam", "prevResult", "runtimeConfig"}
	rateKeys   = []string{"ingressRate", "ingressBurst", "egressRate", "egressBurst"}
	weirKeys   = append([]string{"mode"}, rateKeys...)
)

// ownPrefix begins the keys that the specification reserves.
const ownPrefix = "cni.dev/"

// ParseConfig reads the configuration of the plugin. Keys that it does not know are errors, since a
// mistyped rate would limit nothing.
func ParseConfig(text []byte) (c Config, err error) {
	keys, err := object("", text)
	if err != nil {
		return c, err
	}
	if err := known("", keys, append(slices.Clone(weirKeys), commonKeys...)); err != nil {
		return c, err
	}
	if err := read(keys, "name", &c.Network); err != nil {
		return c, err
	}
	if c.Mode = Shape; len(keys["mode"]) > 0 {
		if err := read(keys, "mode", &c.Mode); err != nil {
			return c, err
		}
	}
	if c.Mode != Shape && c.Mode != Police {
		return c, mistake("mode: %q is neither %q nor %q", c.Mode, Shape, Police)
	}
	if raw := keys[ownPrefix+"valid-attachments"]; len(raw) > 0 {
		if err := read(keys, ownPrefix+"valid-attachments", &c.Valid); err != nil {
			return c, err
		}
	}
	place, from := "", keys
	if raw := keys["runtimeConfig"]; len(raw) > 0 {
		runtime, err := object("runtimeConfig", raw)
		if err != nil {
			return c, err
		}
		if raw := runtime["bandwidth"]; len(raw) > 0 && !isNull(raw) {
			place = "runtimeConfig.bandwidth."
			if from, err = object("runtimeConfig.bandwidth", raw); err != nil {
				return c, err
			}
			if err := known(place, from, rateKeys); err != nil {
				return c, err
			}
		}
	}
	if c.Ingress, err = rate(place, "ingress", from); err != nil {
		return c, err
	}
	c.Egress, err = rate(place, "egress", from)
	return c, err
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

func mistake(format string, args ...any) error {
	return fault.New(fault.Usage, tryConfig, format, args...)
}

func object(place string, text []byte) (keys map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(text, &keys); err != nil {
		if place == "" {
			place = "configuration"
		}
		return nil, mistake("%s: it is not a JSON object: %v", place, err)
	}
	return keys, nil
}

func known(place string, have map[string]json.RawMessage, names []string) error {
	var all []error
	for key := range have {
		if !slices.Contains(names, key) && !(place == "" && strings.HasPrefix(key, ownPrefix)) {
			all = append(all, mistake("%s%s: the plugin weir has no such key%s", place, key, nearest.Hint(key, names)))
		}
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(all...)
}

func read(keys map[string]json.RawMessage, key string, into any) error {
	if err := json.Unmarshal(keys[key], into); err != nil {
		return mistake("%s: %v", key, err)
	}
	return nil
}

// unlimitedBurst is the burst in bits from which a runtime has chosen none: Kubernetes passes this
// number or larger ones for annotations, which have no burst.
const unlimitedBurst = math.MaxInt32

// rate reads rate and burst of a direction. Both are quantities, in bit/s and bits.
func rate(place, direction string, keys map[string]json.RawMessage) (r Rate, err error) {
	r.Key = place + direction + "Rate"
	if r.Bits, err = quantity(r.Key, keys[direction+"Rate"]); err != nil {
		return r, err
	}
	burst, err := quantity(place+direction+"Burst", keys[direction+"Burst"])
	if err != nil || burst == 0 || burst >= unlimitedBurst {
		return r, err
	}
	if r.Bits == 0 {
		return r, mistake("%s%sBurst: a burst without %s limits nothing", place, direction, r.Key)
	}
	r.Burst = time.Duration(float64(burst) / float64(r.Bits) * float64(time.Second))
	return r, nil
}

// quantity reads a number, or a text such as "10M".
func quantity(place string, raw json.RawMessage) (uint64, error) {
	if len(raw) == 0 || isNull(raw) {
		return 0, nil
	}
	text := string(bytes.TrimSpace(raw))
	if text[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return 0, mistake("%s: %v", place, err)
		}
	}
	number, err := ParseQuantity(text)
	if err != nil {
		return 0, mistake("%s: %v", place, err)
	}
	return number, nil
}

// scope returns the scope that limits the traffic of a selector. out is the limit of the scope's
// egress, in that of its ingress.
func (c Config) scope(language *policy.Language, selector string, out, in Rate) (policy.Scope, error) {
	var limits []string
	for _, d := range []struct {
		key string
		Rate
	}{{"egress", out}, {"ingress", in}} {
		if d.Bits == 0 {
			continue
		}
		text := fmt.Sprintf("%s: {rate: %dbit, mode: %s", d.key, d.Bits, c.Mode)
		if d.Burst > 0 {
			text += ", burst: " + d.Burst.String()
		}
		text += "}"
		if _, err := parse(language, "interface: any, "+text); err != nil { // names the direction of the container
			_, problem, _ := strings.Cut(err.Error(), d.key+": ")
			return policy.Scope{}, mistake("%s: %s", d.Key, problem)
		}
		limits = append(limits, text)
	}
	return parse(language, selector+", "+strings.Join(limits, ", "))
}

func parse(language *policy.Language, keys string) (policy.Scope, error) {
	p, err := language.Parse("limit", []byte("version: 1\nscopes: {limit: {"+keys+"}}\n"))
	if err != nil {
		return policy.Scope{}, err
	}
	return p.Scopes[0], nil
}
