//! How connections to the server are opened.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};

/// Opens connections with the client. In the simulation of the journal, connections lead to a
/// network in memory instead.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) client: redis::Client,
    #[cfg(test)]
    network: Option<std::sync::Arc<dyn simulated::Network>>,
}

impl Connector {
    pub(super) fn new(client: redis::Client) -> Self {
        Self {
            client,
            #[cfg(test)]
            network: None,
        }
    }

    pub(super) async fn connect(&self, config: &AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
        #[cfg(test)]
        if let Some(network) = &self.network {
            return simulated::connect(&self.client, &**network, config).await;
        }
        self.client
            .get_multiplexed_async_connection_with_config(config)
            .await
    }
}

/// Connections over a network in memory.
#[cfg(test)]
pub(crate) mod simulated {
    use std::io;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    /// A network in memory, as one host sees it.
    pub(crate) trait Network: Send + Sync {
        fn connect(&self) -> Pin<Box<dyn Future<Output = io::Result<tokio::io::DuplexStream>> + Send + '_>>;

        /// How long an attempt may take: the client keeps its own limit to itself.
        fn connect_timeout(&self) -> Duration;
    }

    impl crate::redis::RedisOptions {
        /// Replaces the sockets by a network in memory.
        pub(crate) fn network(mut self, network: Arc<dyn Network>) -> Self {
            self.connector.network = Some(network);
            self
        }
    }

    pub(super) async fn connect(
        client: &redis::Client,
        network: &dyn Network,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let settings = client.get_connection_info().redis_settings();
        let opened = async {
            let stream = network.connect().await?;
            MultiplexedConnection::new_with_config(settings, stream, config.clone()).await
        };
        let (connection, driver) = tokio::time::timeout(network.connect_timeout(), opened)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        #[expect(clippy::disallowed_methods, reason = "it ends with the connection")]
        tokio::spawn(driver);
        Ok(connection)
    }
}
