package control

import (
	"encoding/json"
	"errors"
	"net/http"

	"tare/annex/config"
)

// Problem is why a request was not done, as the server tells it.
type Problem struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"message"`
	// What an unknown container was called, and might have been.
	Container string   `json:"container,omitempty"`
	Near      []string `json:"near,omitempty"`
	Several   []string `json:"several,omitempty"`
	// What was refused, in which state, and what mends it.
	What  string `json:"what,omitempty"`
	State State  `json:"state,omitempty"`
	Mend  string `json:"mend,omitempty"`
	// What is wrong with the configuration.
	File     string           `json:"file,omitempty"`
	Problems []config.Problem `json:"problems,omitempty"`
}

// Kind is what sort of problem it is.
type Kind string

// The kinds.
const (
	UnknownContainer Kind = "unknown_container"
	InState          Kind = "state"
	Configuration    Kind = "configuration"
	Request          Kind = "request"
	Failure          Kind = "failure"
)

var statuses = map[Kind]int{
	UnknownContainer: http.StatusNotFound,
	InState:          http.StatusConflict,
	Configuration:    http.StatusUnprocessableEntity,
	Request:          http.StatusBadRequest,
	Failure:          http.StatusInternalServerError,
}

// badRequest is a request that makes no sense.
type badRequest string

func (b badRequest) Error() string { return string(b) }

func problemOf(err error) Problem {
	p := Problem{Kind: Failure, Message: err.Error()}
	var unknown *Unknown
	var refused *Refused
	var invalid *config.Invalid
	var bad badRequest
	switch {
	case errors.As(err, &unknown):
		p.Kind, p.Container, p.Near, p.Several = UnknownContainer, unknown.Container, unknown.Near, unknown.Several
	case errors.As(err, &refused):
		p.Kind, p.What, p.State, p.Mend = InState, refused.What, refused.State, refused.Mend
	case errors.As(err, &invalid):
		p.Kind, p.File, p.Problems = Configuration, invalid.File, invalid.Problems
	case errors.As(err, &bad):
		p.Kind = Request
	}
	return p
}

// err is the error that the server had.
func (p Problem) err() error {
	switch p.Kind {
	case UnknownContainer:
		return &Unknown{Container: p.Container, Near: p.Near, Several: p.Several}
	case InState:
		return &Refused{What: p.What, State: p.State, Mend: p.Mend}
	case Configuration:
		return &config.Invalid{File: p.File, Problems: p.Problems}
	}
	return errors.New(p.Message)
}

func refuse(w http.ResponseWriter, err error) {
	p := problemOf(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statuses[p.Kind])
	// Whoever has left misses nothing.
	_ = json.NewEncoder(w).Encode(p)
}
