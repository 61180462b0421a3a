# syntax=docker/dockerfile:1
# The reference server. Needs no model, no database and no network at run time.
#
#   docker build -t ragwire-server .
#   docker run -p 8787:8787 -v ragwire:/data ragwire-server
#
# --build-arg FEATURES=qdrant,llama adds engines; llama.cpp is then compiled too, which takes minutes.

FROM rust:1.95-bookworm AS build
ARG FEATURES=""
# For production everything is optimised for speed; the profile of the repository favours a short build.
ENV CARGO_PROFILE_RELEASE_OPT_LEVEL=3 CARGO_INCREMENTAL=0
RUN case ",$FEATURES," in \
      *,llama,*) apt-get update && apt-get install -y --no-install-recommends cmake clang libclang-dev \
                 && rm -rf /var/lib/apt/lists/* ;; \
    esac
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --release -p ragwire-server --features "$FEATURES" \
    && install -s -D target/release/ragwire-server /out/usr/local/bin/ragwire-server \
    && install -d /out/data

FROM debian:bookworm-slim
# Certificates for model servers and orchestrators behind TLS; libstdc++ for builds with engines.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates libstdc++6 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin ragwire
COPY --from=build /out/usr/local/bin/ragwire-server /usr/local/bin/ragwire-server
COPY --from=build --chown=10001:10001 /out/data /data
USER 10001:10001
# The library, sessions and journal are files below /data.
VOLUME /data
ENV RAGWIRE_LISTEN=0.0.0.0:8787 RAGWIRE_DATA=/data
EXPOSE 8787
# SIGTERM ends each open turn with its terminal, which may take as long as --drain.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 CMD ["ragwire-server", "health"]
ENTRYPOINT ["ragwire-server"]
