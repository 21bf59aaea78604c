// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"weir/core/engine"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"weir/core/module"
	"weir/core/policy"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/internal/version"
)

// policyRequest carries the text of a policy.
type policyRequest struct {
	Shadow  bool   `query:"shadow" doc:"Put all scopes in shadow: count only."`
	RawBody []byte `contentType:"application/yaml" required:"true"`
}

// FormatRelease is the format of [Released].
const FormatRelease = "weir-release/1"

// Released is the result of a release.
type Released struct {
	Format   string `json:"format"`
	Released bool   `json:"released" doc:"Whether a policy was active."`
}

type response[T any] struct{ Body T }

// api returns the HTTP API. Its description, /openapi.json, is generated from this file's types.
func (s *Service) api(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	config := huma.DefaultConfig("Weir", version.String())
	config.Info.Description = "The policy of this host. Served on a unix socket; its file permissions control access."
	config.DocsPath, config.SchemasPath = "", ""                                                             // no page with foreign scripts
	config.CreateHooks = nil                                                                                 // no link to the schema in answers
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[units.BitRate](), reflect.TypeFor[uint64]()) // a number, or a histogram
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[module.Value](), reflect.TypeFor[any]())     // a number, or counts by size
	config.FieldsOptionalByDefault = false
	api := humago.New(mux, config)
	plain := func(path, summary, kind string, handler http.Handler, statuses ...string) {
		if handler != nil {
			mux.Handle("GET "+path, handler)
		}
		describePlain(api, path, summary, kind, statuses...)
	}
	plain("/healthz", "Whether the policy is kept active", "text/plain", &s.health, "200", "503")
	plain("/metrics", "The metrics, for Prometheus", "text/plain", metrics, "200", "503")
	plain("/v1/metrics", "The metrics, for Prometheus", "text/plain", metrics, "200", "503")
	plain("/openapi.json", "This description", "application/openapi+json", nil, "200")
	plain("/openapi.yaml", "This description as YAML", "application/openapi+yaml", nil, "200")

	s.registerStatus(api)
	huma.Register(api, operation("plan", http.MethodPost, "Show the effect of applying a policy, without any change"),
		func(_ context.Context, in *policyRequest) (*response[engine.PolicyResult], error) {
			return s.take(in, s.Engine.Plan)
		})
	huma.Register(api, operation("apply", http.MethodPost, "Apply a policy, until the policy file changes or another apply"),
		func(_ context.Context, in *policyRequest) (*response[engine.PolicyResult], error) {
			return s.take(in, s.Engine.Apply)
		})
	huma.Register(api, operation("release", http.MethodPost, "End everything, until the policy file changes or the next apply"),
		func(context.Context, *struct{}) (*response[Released], error) {
			released, err := s.Engine.Release()
			return &response[Released]{Released{FormatRelease, released}}, problem(err)
		})
	return mux
}

// registerStatus adds the status, which is streamed.
func (s *Service) registerStatus(api huma.API) {
	status := operation("status", http.MethodGet, "The active policy and its counters")
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[engine.Status](), true, "Status")
	status.Responses = map[string]*huma.Response{"200": {Description: http.StatusText(http.StatusOK), Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}}
	huma.Register(api, status, func(context.Context, *struct{}) (*huma.StreamResponse, error) {
		status, err := s.Engine.ReadStatus()
		if err != nil {
			return nil, problem(err)
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			ctx.SetHeader("Content-Type", "application/json")
			_ = writeStatus(status, ctx.BodyWriter()) // the client has closed
		}}, nil
	})
}

// describePlain describes a GET with a text answer.
func describePlain(api huma.API, path, summary, kind string, statuses ...string) {
	answers := map[string]*huma.Response{}
	for _, status := range statuses {
		code, _ := strconv.Atoi(status)
		answers[status] = &huma.Response{Description: http.StatusText(code), Content: map[string]*huma.MediaType{kind: {Schema: &huma.Schema{Type: huma.TypeString}}}}
	}
	id := strings.NewReplacer("/", "-", ".", "-").Replace(strings.TrimPrefix(path, "/"))
	api.OpenAPI().AddOperation(&huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Responses: answers})
}

func operation(name, method, summary string) huma.Operation {
	return huma.Operation{OperationID: name, Method: method, Path: "/v1/" + name, Summary: summary, MaxBodyBytes: policy.MaxFile,
		Errors: []int{http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusInternalServerError}}
}

// take parses the policy of a request and runs do.
func (s *Service) take(in *policyRequest, do func(*policy.Policy) (engine.Outcome, error)) (*response[engine.PolicyResult], error) {
	p, err := s.Engine.Language.Parse("policy", in.RawBody)
	if err != nil {
		return nil, problem(err)
	}
	p.PutInShadow(in.Shadow)
	result, err := s.Engine.Take(p, do)
	if err != nil {
		return nil, problem(err)
	}
	select {
	case s.nudged <- struct{}{}: // other cgroups may need watches now
	default:
	}
	return &response[engine.PolicyResult]{result}, nil
}

// problem converts an error to a problem document (RFC 9457) with advice.
func problem(err error) error {
	if err == nil {
		return nil
	}
	status := map[fault.Status]int{fault.Usage: http.StatusUnprocessableEntity, fault.Permission: http.StatusForbidden}[fault.Of(err)]
	if status == 0 {
		status = http.StatusInternalServerError
	}
	model := &huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: err.Error()}
	if advice := fault.Advice(err); advice != "" {
		model.Errors = []*huma.ErrorDetail{{Message: advice, Location: "try"}}
	}
	return model
}
