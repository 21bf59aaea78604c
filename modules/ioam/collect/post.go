// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// Types of the JSON form of OTLP for traces and metrics: 64-bit numbers are text.
type (
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
	}
	named struct {
		Name string `json:"name"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
)

var instrumentation = named{"weir/modules/ioam"}

func text(key, v string) attribute { return attribute{key, value{String: &v}} }

func whole[T int | int64 | uint32 | uint64 | uint16](key string, v T) attribute {
	s := fmt.Sprint(v)
	return attribute{key, value{Int: &s}}
}

func resourceOf(host string) resource {
	return resource{[]attribute{text("service.name", "weir-ioam"), text("service.instance.id", host)}}
}

// post sends a document of OTLP/HTTP.
func post(client *http.Client, url, what string, document any) error {
	body, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("export %s: %w", what, err)
	}
	response, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("export %s: %w", what, err)
	}
	_ = response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("export %s to %s: %s", what, url, response.Status)
	}
	return nil
}
