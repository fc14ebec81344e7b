package platform

// Limited is a platform whose figures do not carry over to others of its kind: an emulated machine.
type Limited interface {
	// NotRepresentative says why; empty is that they do carry over.
	NotRepresentative() string
}

// NotRepresentative says why a platform's figures do not carry over; empty where they do.
func NotRepresentative(p Platform) string {
	if limited, ok := p.(Limited); ok {
		return limited.NotRepresentative()
	}
	return ""
}

// Looking is a platform whose Check may take long, or make something.
type Looking interface {
	// Look reports what the host lacks as far as that is seen at once. The error is a *Missing.
	Look() error
}
