package tracing

func (o *Options) SetRemember(v int) *Options {
	o.remember = v
	return o
}
