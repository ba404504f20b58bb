//! Routes executed without any adapter.
