// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"weir/internal/fault"
)

// scalar stores a single value in its destination.
func (d *decoder) scalar(n *Node, out reflect.Value, path string) {
	text, ok := d.vars.expand(n, d.problems)
	if !ok {
		return
	}
	if out.Type() == textType {
		out.Set(reflect.ValueOf(Text{text, n.Place}))
		return
	}
	if u, reads := out.Addr().Interface().(encoding.TextUnmarshaler); reads {
		if err := u.UnmarshalText([]byte(text)); err != nil {
			d.advise(n.Place, fault.Advice(err), path, "%v", err)
		}
		setFields(out, Fields{Self: n.Place})
		return
	}
	// As in the schema. The value of a variable is unknown here.
	if n.Quoted && text == n.Text && out.Kind() != reflect.String && out.Kind() <= reflect.Float64 {
		way := fmt.Sprintf("write %s without quotes", text)
		if out.Kind() == reflect.Bool && text != "true" && text != "false" {
			way = "write true or false"
		}
		d.advise(n.Place, way, path, "%q is a text: expected %s", text, plain(out.Kind()))
		return
	}
	switch out.Kind() {
	case reflect.String:
		out.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			d.complain(n.Place, path, "%q is neither true nor false", text)
		}
		out.SetBool(text == "true")
	case reflect.Int, reflect.Int64, reflect.Int32:
		if octal(text) {
			d.complain(n.Place, path, "%q begins with 0, which YAML 1.1 reads as octal: write it without", text)
		}
		v, err := strconv.ParseInt(text, 10, out.Type().Bits())
		if err != nil {
			d.complain(n.Place, path, "%q is not a whole number", text)
		}
		out.SetInt(v)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if octal(text) {
			d.complain(n.Place, path, "%q begins with 0, which YAML 1.1 reads as octal: write it without", text)
		}
		v, err := strconv.ParseUint(text, 10, out.Type().Bits())
		if err != nil {
			d.complain(n.Place, path, "%q is not a whole number from 0 to %d", text, uint64(1)<<(out.Type().Bits()-1)*2-1)
		}
		out.SetUint(v)
	case reflect.Float64:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v != v || v-v != 0 {
			d.complain(n.Place, path, "%q is not a number", text)
			return
		}
		out.SetFloat(v)
	default:
		d.complain(n.Place, path, "expected %s, found a single value", wanted(out))
	}
}

// plain names a value without quotes.
func plain(kind reflect.Kind) string {
	if kind == reflect.Bool {
		return "true or false"
	}
	return "a number"
}

// octal reports whether YAML 1.1 reads a number differently.
func octal(text string) bool {
	digits := strings.TrimLeft(text, "+-")
	return len(digits) > 1 && digits[0] == '0' && '0' <= digits[1] && digits[1] <= '9'
}
